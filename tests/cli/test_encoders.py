"""`mappable encoders`: what encoders can be made of, weight sets in the cache, and facts about encoders."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from mappable.cli import encoders
from mappable.features.weights import WEIGHT_SETS, fetch_weights

pytestmark = pytest.mark.medium
Run = Callable[..., Result]
Typed = Callable[..., "subprocess.CompletedProcess[str]"]


def test_a_weight_set_is_imported_and_shown(typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = fetch_weights("vgg16-v1")  # of the user's own cache
    monkeypatch.setenv("MAPPABLE_CACHE", str(tmp_path / "cache"))
    assert typed("encoders").stdout.count("not in the cache") == len(WEIGHT_SETS)
    file = tmp_path / "cache/vgg16-v1.safetensors"
    imported = typed("encoders", "vgg16-v1", "--file", original)
    assert (imported.stdout, imported.stderr) == (f"{file}\n", "")
    facts = json.loads(typed("encoders", "vgg16-v1", "--json").stdout)
    assert (facts["file"], facts["source"], facts["backbone"]) == (str(file), str(original), "vgg16")
    assert f"{file} (58.9 MB)" in typed("encoders").stdout
    file.write_bytes(b"half of it")
    assert f"{file} is damaged; fetch it again" in typed("encoders").stdout


@pytest.mark.usefixtures("own_cache")
def test_encoders_are_listed_with_size_license_and_time(
    mappable: Run,
    foreign_hub: Path,
    foreign_onnx: Callable[..., Path],
    wall_map: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(encoders, "QUERIES", 1)
    monkeypatch.setattr(encoders, "WARM_UP", 0)
    listed = mappable("encoders").stdout
    for text in ("vgg16-v1", "65,536", "hub:OWNER/REPO@COMMIT:ENTRY", "transformers:NAME", "megaloc"):
        assert text in listed
    parts = json.loads(mappable("encoders", "--json").stdout)
    vgg = next(backbone for backbone in parts["backbones"] if backbone["name"] == "vgg16")
    assert (round(vgg["megabytes"]), vgg["dimensions"]) == (59, 32_768)
    sources = (foreign_hub, foreign_onnx(), wall_map)
    shown = json.loads(mappable("encoders", *sources, "--time", "--trust-code", "--json").stdout)
    assert [facts["dimensions"] for facts in shown] == [144, 144, 192]
    assert [facts["license"] for facts in shown[:2]] == ["MIT", "MIT"]
    assert "64x48" in mappable("encoders", wall_map).stdout
