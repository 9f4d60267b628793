"""The protocols of the presets, as the issue of results depends on them."""

import re
from dataclasses import replace
from zlib import crc32

import pytest

from mappable_worlds import conditions
from mappable_worlds.camera import OTHER_CAR, OTHER_ROBOT
from mappable_worlds.presets import PRESETS, Preset

ALL = list(PRESETS.values())
PARTS = ["main", "region-b", "wing", "camera", "leaving"]


def conditions_of(preset: Preset, **fields: str) -> list[str]:
    return [
        run.condition
        for run in preset.runs
        if all(getattr(run, name) == value for name, value in fields.items())
    ]


@pytest.mark.parametrize("name", ["street-v1", "rooms-v1"])
def test_the_parts_that_training_never_sees_are_references_and_queries(name: str) -> None:
    preset = PRESETS[name]
    assert list(preset.parts) == PARTS
    for run in preset.runs:
        assert (run.split == "") == (run.part != "main") == (run.role != "")
        assert run.route == ("main" if run.part == "camera" else run.part)
        assert (run.camera in (OTHER_CAR, OTHER_ROBOT)) == (run.part == "camera")
    for part in ("region-b", "wing"):
        assert len(conditions_of(preset, part=part, role="reference")) == 1
        assert len(conditions_of(preset, part=part, role="query")) == 3


def test_the_demo_is_a_part_of_the_same_runs() -> None:
    street, demo = PRESETS["street-v1"], PRESETS["street-v1-demo"]
    assert (demo.frame, demo.seed, demo.landmarks) == (street.frame, street.seed, 100)
    assert [(run.name, run.seed, run.spacing) for run in demo.runs] == [
        (run.name, run.seed, run.spacing) for run in street.parts["main"]
    ]
    assert {(run.length, run.every) for run in demo.runs} == {(500.0, 2)}
    brief = [replace(run, every=2) for run in PRESETS["street-v1-brief"].runs]
    assert tuple(brief) == demo.runs
    assert {(run.split, run.every) for run in PRESETS["street-v1-brief"].runs} == {
        ("train", 2),
        ("calibration", 4),
        ("test", 4),
    }


@pytest.mark.parametrize("preset", ALL, ids=lambda preset: preset.name)
def test_every_run_has_a_name_a_seed_and_a_condition_of_its_world(preset: Preset) -> None:
    assert (
        len({run.name for run in preset.runs})
        == len({run.seed for run in preset.runs})
        == len(preset.runs)
    )
    known = conditions.STREET if preset.world == "street" else conditions.ROOMS
    assert {run.condition for run in preset.runs} <= known.keys()


@pytest.mark.parametrize("preset", ALL, ids=lambda preset: preset.name)
def test_each_part_of_a_preset_is_frozen(preset: Preset) -> None:
    assert preset.image_hashes.keys() == preset.parts.keys()
    assert all(re.fullmatch("[0-9a-f]{64}", one) for one in preset.image_hashes.values())


def test_the_protocol_of_a_frozen_preset_never_changes() -> None:
    fields = ("frame", "world", "seed", "size", "dimensions", "runs", "landmarks")
    fields += ("positive_radius", "negative_radius", "yaw_limit")
    found = {
        one.name: crc32(repr([getattr(one, field) for field in fields]).encode()) for one in ALL
    }
    assert found == {
        "street-v1": 4257445837,
        "rooms-v1": 1951384344,
        "street-v1-demo": 606118741,
        "street-v1-brief": 1660714891,
        "street-v1-3d": 3738193053,
        "rooms-v1-3d": 1287115029,
    }
