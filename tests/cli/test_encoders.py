"""`mappable encoders`: what encoders can be made of, weight sets in the cache, and facts about encoders."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from mappable.features.weights import WEIGHT_SETS, fetch_weights

pytestmark = pytest.mark.medium
Typed = Callable[..., "subprocess.CompletedProcess[str]"]


def test_a_weight_set_is_imported_and_shown(
    typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = fetch_weights("vgg16-v1")  # of the user's own cache
    monkeypatch.setenv("MAPPABLE_CACHE", str(tmp_path / "cache"))
    assert typed("encoders").stdout.count("not in the cache") == len(WEIGHT_SETS)
    file = tmp_path / "cache/vgg16-v1.safetensors"
    imported = typed("encoders", "vgg16-v1", "--file", original)
    assert (imported.stdout, imported.stderr) == (f"{file}\n", "")
    facts = json.loads(typed("encoders", "vgg16-v1", "--json").stdout)
    assert (facts["file"], facts["source"], facts["backbone"]) == (
        str(file),
        str(original),
        "vgg16",
    )
    assert f"{file} (58.9 MB)" in typed("encoders").stdout
    file.write_bytes(b"half of it")
    assert f"{file} is damaged; fetch it again" in typed("encoders").stdout
