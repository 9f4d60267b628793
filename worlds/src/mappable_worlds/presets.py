"""The presets: a world, the runs through it, their conditions, and the purpose of each run.

All presets are frozen (`FROZEN`): do not change anything that changes their images, here or in the
drawing code. A change needs a new preset, such as street-v2, with its own hashes, thumbnails
(`worlds/tests/test_frozen.py`) and results. The old preset must still draw the same images.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal
from zlib import crc32

from mappable.errors import BadInputError
from mappable.places.images import Size
from mappable_worlds.camera import CAR, OTHER_CAR, OTHER_ROBOT, ROBOT, Camera

# The part for training and testing; the other parts test generalization to unseen places and
# cameras.
MAIN = "main"


@dataclass(frozen=True)
class Run:
    """One traversal: a sequence of the table. `spacing` is metres between images.

    Only images of the first `length` metres are kept (None: of the whole route), and only every
    `every`-th of them.
    """

    name: str
    part: str
    split: str
    role: str
    condition: str
    route: str
    camera: Camera
    spacing: float
    seed: int
    length: float | None = None
    every: int = 1


@dataclass(frozen=True)
class Preset:
    """A world and its protocol; radii are in metres, `yaw_limit` in radians, or None if there is no
    yaw rule.

    Presets with the same `frame` show the same world. `image_hashes` has the frozen hash of each
    part, as in `world.json`, for images of `size` drawn on a CPU. Equal hashes mean that all images
    are equal, bit for bit. It is empty if the preset is not frozen yet.
    """

    name: str
    summary: str
    frame: str
    world: Literal["street", "rooms"]
    seed: int
    runs: tuple[Run, ...]
    landmarks: int
    positive_radius: float
    negative_radius: float
    yaw_limit: float | None = None
    dimensions: Literal[2, 3] = 2
    size: Size = (160, 120)
    image_hashes: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def parts(self) -> dict[str, tuple[Run, ...]]:
        """Return the runs of each part."""
        return {
            part: tuple(run for run in self.runs if run.part == part)
            for part in {run.part: 0 for run in self.runs}
        }

    def select(self, parts: Sequence[str] | str | None = None) -> tuple[Run, ...]:
        """Return the runs of some parts (None: all), in the order of the preset; raise for an
        unknown part.
        """
        known, parts = self.parts, [parts] if isinstance(parts, str) else parts
        if parts is not None and not parts:
            raise BadInputError(
                f"the list of parts of {self.name} is empty: use one or more of {', '.join(known)}"
            )
        for part in parts or ():
            if part not in known:
                raise BadInputError(
                    f"{self.name} has no part {part!r}: use one of {', '.join(known)}"
                )
        return tuple(run for run in self.runs if parts is None or run.part in parts)


def find_preset(name: str) -> Preset:
    """Find a preset by name; the error for an unknown name lists the known ones."""
    if name not in PRESETS:
        raise BadInputError(f"unknown preset {name!r}: use one of {', '.join(PRESETS)}")
    return PRESETS[name]


class _Runs:
    """Makes the runs of one world. The seed of a run comes from its name, so a new run does not
    change the others.
    """

    def __init__(
        self, frame: str, camera: Camera, spacing: float, length: float | None = None
    ) -> None:
        self.frame, self.camera, self.spacing, self.length = frame, camera, spacing, length

    def one(
        self, name: str, condition: str, *, part: str = MAIN, split: str = "", role: str = ""
    ) -> Run:
        seed = crc32(f"{self.frame}/{name}".encode()) & 0x7FFFFFFF
        length = self.length if part == MAIN else None
        return Run(
            name, part, split, role, condition, part, self.camera, self.spacing, seed, length
        )

    def split(self, split: str, *conditions: str) -> list[Run]:
        return [
            self.one(f"{split}-{condition}", condition, split=split) for condition in conditions
        ]

    def queries(self, part: str, *conditions: str) -> list[Run]:
        return [self.one(f"{part}-query-{one}", one, part=part, role="query") for one in conditions]

    def apart(self, part: str, reference: str, *conditions: str) -> list[Run]:
        """Return the runs of a part with its own map: one reference run, and queries."""
        name = f"{part}-reference-{reference}"
        return [
            self.one(name, reference, part=part, role="reference"),
            *self.queries(part, *conditions),
        ]

    def other_camera(self, camera: Camera, spacing: float, *conditions: str) -> list[Run]:
        """Return queries on the main route with a camera that no other run has."""
        queries = self.queries("camera", *conditions)
        return [
            replace(run, route=MAIN, camera=camera, spacing=spacing, length=self.length)
            for run in queries
        ]


def _street() -> Preset:
    runs = _Runs("street-v1", CAR, 1.0, length=1250.0)
    return Preset(
        name="street-v1",
        summary=(
            "a car drives 1,250 m of streets in sun, snow, rain and at night, 1 m between images"
        ),
        frame="street-v1",
        world="street",
        seed=1,
        runs=(
            *runs.split("train", "sun", "snow", "overcast", "night-rain"),
            *runs.split("calibration", "overcast", "night"),
            *runs.split("test", "overcast", "night", "rain"),
            *runs.apart("region-b", "overcast", "overcast", "night", "rain"),
            *runs.apart("wing", "overcast", "overcast", "night", "rain"),
            *runs.other_camera(OTHER_CAR, 2.0, "overcast", "night"),
            *runs.queries("leaving", "overcast", "night"),
        ),
        landmarks=200,
        positive_radius=10.0,
        negative_radius=25.0,
    )


def _rooms() -> Preset:
    runs = _Runs("rooms-v1", ROBOT, 0.25)
    conditions = ("cloudy", "sunny", "night")
    splits = {1: "train", 2: "train", 4: "calibration", 3: "test"}
    return Preset(
        name="rooms-v1",
        summary=(
            "a robot drives and turns in rooms and a corridor, cloudy, sunny and at night, 0.25 m"
            " between images"
        ),
        frame="rooms-v1",
        world="rooms",
        seed=1,
        runs=(
            *(
                runs.one(f"{one}-run{number}", one, split=splits[number])
                for number in splits
                for one in conditions
            ),
            *runs.apart("region-b", "cloudy", *conditions),
            *runs.apart("wing", "cloudy", *conditions),
            *runs.other_camera(OTHER_ROBOT, 0.25, "cloudy"),
            *runs.queries("leaving", "cloudy", "night"),
        ),
        landmarks=100,
        positive_radius=1.0,
        negative_radius=4.0,
        yaw_limit=math.radians(30.0),
    )


def _demo(street: Preset) -> Preset:
    main = (replace(run, length=500.0, every=2) for run in street.parts[MAIN])
    summary = "the first 500 m of street-v1, every second image of the runs of its main part"
    return replace(street, name="street-v1-demo", summary=summary, runs=tuple(main), landmarks=100)


def _brief(demo: Preset) -> Preset:
    runs = (run if run.split == "train" else replace(run, every=4) for run in demo.runs)
    summary = "street-v1-demo with every second image of its calibration and test runs"
    return replace(demo, name="street-v1-brief", summary=summary, runs=tuple(runs))


def _three_dimensional(flat: Preset, summary: str, runs: Iterable[Run]) -> Preset:
    name = f"{flat.name}-3d"
    return replace(
        flat, name=name, frame=name, summary=summary, runs=tuple(runs), landmarks=100, dimensions=3
    )


def _street_3d(street: Preset) -> Preset:
    runs = _Runs(f"{street.name}-3d", CAR, 2.0)
    train, calibration = (
        runs.split("train", "sun", "overcast"),
        runs.split("calibration", "overcast"),
    )
    summary = "a small street-v1 on hills: z counts, 2 m between images"
    return _three_dimensional(
        street, summary, [*train, *calibration, *runs.split("test", "overcast", "night")]
    )


def _rooms_3d(rooms: Preset) -> Preset:
    runs = _Runs(f"{rooms.name}-3d", ROBOT, 0.5)
    train, calibration = runs.split("train", "cloudy", "sunny"), runs.split("calibration", "cloudy")
    summary = "a small rooms-v1 on two stories: z counts, 0.5 m between images"
    return _three_dimensional(
        rooms, summary, [*train, *calibration, *runs.split("test", "cloudy", "night")]
    )


def _all() -> Mapping[str, Preset]:
    street, rooms = _street(), _rooms()
    demo = _demo(street)
    presets = (street, rooms, demo, _brief(demo), _street_3d(street), _rooms_3d(rooms))
    return {
        preset.name: replace(preset, image_hashes=FROZEN.get(preset.name, {})) for preset in presets
    }


# Drawn on an AMD EPYC with torch 2.13.0 and numpy 2.4.6; another processor or library may round
# differently.
FROZEN: Mapping[str, Mapping[str, str]] = {
    "street-v1": {
        "main": "64261735c05063d7f6cf29f5c10f33209870ec8698dab6176feed36fcfcc0f55",
        "region-b": "0a821697fe1387d0a49ac9fa6058252835264e5e3607338c3753a2384072ebe3",
        "wing": "0ded8b403b6321a301520f1351e066cdfd467c2ba7dd7a0087abe1d7ebd232b7",
        "camera": "d498613b6505640de8db453f0f6071ef4f7f513b0e4d548c1c4766c9d27c9a46",
        "leaving": "9a9340f26c172ee619e5e305f77d76a252b149bad61d0e53f2f1c3435d56c993",
    },
    "rooms-v1": {
        "main": "5d78666c3febdd76b901eca8b88079e4c4c25846ff11349b34973540aa1b9372",
        "region-b": "42c1346e748bb6088838851eb49b65735c22c68a2cfc50e092b18192e40d027a",
        "wing": "cdabe86022e9fd90088ad780cfc2d8825ac2472185e17bd76360006325d7bfa9",
        "camera": "72ea2461dc8f31a0d0f6bfcd901714d4dcbc983772cfe6a37571ee6612ed41fa",
        "leaving": "6ae86971d91a52b8064eeffe0b55ec2bf79660ddd6eebf0ac5cf6b245bc53ddf",
    },
    "street-v1-demo": {"main": "8b3ee848c2600931e24da01feb37159fdccf14fbe847e6e3bd47333a6c272655"},
    "street-v1-brief": {"main": "da4f9f76c73af41efbb65d0e987367e0490187e41c35bae22e7113ef7fb7cfcf"},
    "street-v1-3d": {"main": "e753632089d68b51b99fa30662b8c02499377fe3b25aec385e78a5262f475098"},
    "rooms-v1-3d": {"main": "90ed562e22659dc9f4270110f386ef8e0dbf7f5c5fa19ac60dc8c0eb5218be01"},
}

PRESETS: Mapping[str, Preset] = _all()
