"""Recordings, by a stand-in for rerun; tests/cli/test_interop.py reads real ones where rerun is installed."""

import json
import sys
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest

from mappable.maps import rerun_export
from mappable.maps.locate import Locator
from mappable.maps.location import NotLocated, Outcome
from mappable.maps.run import LocatedRun
from mappable.places.pixels import ImageRows


class Stream:
    """Keeps what is logged, by entity."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.logged: dict[str, list[Any]] = defaultdict(list)

    def log(self, entity: str, what: Any, static: bool = False) -> None:
        self.logged[entity].append(what)

    def __getattr__(self, _: str) -> Any:
        return lambda *_, **__: None


def test_a_recording_has_every_field_of_every_image(town: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = MagicMock(RecordingStream=Stream, TextDocument=lambda text: SimpleNamespace(text=text))
    monkeypatch.setitem(sys.modules, "rerun", fake)
    monkeypatch.setitem(sys.modules, "rerun.blueprint", fake.blueprint)
    monkeypatch.setattr(rerun_export._Recorder, "_landmark_picture", lambda *_: None)
    names = ["0.jpg", "1.jpg"]
    found: list[Outcome] = list(Locator(town.map).locate(town.drive[1][:2], encoder=town.encoder, images=names))
    found.append(NotLocated("2.jpg", "2.jpg: not an image"))
    places = town.places(np.zeros((3, 2)), "images")
    images = ImageRows(np.zeros((3, 8, 8, 3), dtype=np.uint8), np.arange(3))
    recorder = rerun_export._Recorder(LocatedRun(town.map, places, found, town.drive[0][:3]), images)
    assert recorder.record(Path("run.rrd")) == []
    logged = recorder.stream.logged
    assert [json.loads(one.text) for one in logged["query/location"]] == json.loads(
        json.dumps(list(map(asdict, found)))
    )
    assert "0.jpg" in logged["query/says"][0].text
    assert logged["query/says"][2].text == "2.jpg: not an image"
    assert len(logged["plots/distance"]) == 1 + 3  # how it is drawn, and a number per image
