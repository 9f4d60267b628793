"""`mappable demo`: its files and output, when stopped, continued, and started over in the folder of another demo."""

import json
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import Result

from mappable.cli import demo
from mappable.evaluation import report, sets
from mappable.features.encoder import Encoder
from mappable.maps.landmarks import Landmarks
from mappable.places import load_places
from mappable.places.cache import find_pack


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """A short street, one model, hardly any images, and no figures: `make test-long` draws those of
    a demo.
    """
    monkeypatch.setattr(report, "drawings", list)
    assert demo.SET == "street-v1-brief"
    small = replace(sets.find_set("street-v1-3d"), preset="street-laptop")
    monkeypatch.setattr(demo, "SET", small.name)
    monkeypatch.setattr(demo, "ROWS", ("triplet+huber-ours",))
    monkeypatch.setattr(sets, "SETS", sets.SETS | {small.name: small})


@pytest.mark.medium
@pytest.mark.usefixtures("tiny")
def test_the_demo_makes_what_it_says_and_nothing_twice(
    tmp_path: Path, mappable: Callable[..., Result]
) -> None:
    out = tmp_path / "the demo"
    street, model = out / "places", out / "models/triplet+huber-ours-seed0"
    first = mappable("demo", out, "--every", 60)
    assert first.exit_code == 0, first.output
    places = load_places(street)
    assert set(places.split) == {"train", "calibration", "test"}
    assert find_pack(street).load(places).shape == (len(places), 120, 160, 3)
    quoted = shlex.quote(str(out))
    for text in (
        f"mappable simulate street-v1-3d {shlex.quote(str(street))} --every 60\n",
        (
            f"mappable reproduce street-v1-3d {quoted} --rows triplet+huber-ours --every 60 --set"
            " iterations=3"
        ),
        " --protocols table1,",
        f"mappable map build {shlex.quote(str(street))}",
        "upper bound",
        "true error",
        "Triplet + Huber (ours)",
        "gain within 10 m",
    ):
        assert text in first.stdout
    served = f"mappable serve {shlex.quote(str(out / 'map'))} --images {shlex.quote(str(street))}"
    assert first.stdout.endswith(f"view it in a browser: {served}\n")
    assert f"report: {out / 'report.html'}\n" in first.stdout
    for name in ("contact-sheet.jpg", "map.png"):
        with Image.open(street / name) as picture:
            assert picture.width > 400
    about = Encoder.load(model / "encoder.safetensors").about
    assert (about.weights, about.settings["trainable"], about.settings["iterations"]) == (
        "vgg16-v1",
        "last",
        3,
    )
    assert (
        Landmarks.open(out / "map").encoder
        == Encoder.load(model / "encoder.safetensors").fingerprint
    )
    report = json.loads((out / "report.json").read_text())
    assert report["set"] == "street-v1-3d"
    learnt, (kept, lost) = model / "encoder.safetensors", places.files[:2]
    before, content = [file.stat().st_mtime_ns for file in (kept, learnt)], lost.read_bytes()
    lost.unlink()
    again = mappable("demo", out, "--every", 60, "--overwrite")
    assert again.stdout == first.stdout
    assert ([file.stat().st_mtime_ns for file in (kept, learnt)], lost.read_bytes()) == (
        before,
        content,
    )
