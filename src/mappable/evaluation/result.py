"""The result of one model on one set: the results of all protocols, saved in a folder that can be compared."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import numpy as np
from safetensors.numpy import load, save

from mappable.arrays import Floats, Ints, Strings
from mappable.evaluation.records import Arrays, from_json, to_json
from mappable.evaluation.setup import Setup
from mappable.features.about import version_of_mappable
from mappable.files import write_atomically, writing
from mappable.formats import Format

RESULT, ARRAYS, NEXT_ARRAYS = "result.json", "arrays.safetensors", "arrays-next.safetensors"
FORMAT = Format(
    "mappable result",
    4,
    "evaluate again",
    sealed_since=4,
    limit=2**30,
    if_missing="give a folder that `mappable evaluate` wrote",
)
MAPPINGS = ("settings", "skipped", "failed", "keys", "ran", "map")
FACTS = ("set", "frame", "unit", "positive_radius", "negative_radius", "row", "title", "seed", "encoder", "setup")

R = TypeVar("R")


@dataclass(frozen=True)
class Accuracy:
    """The result of protocol `table1`, which comparisons use. Percentages are from 0 to 100.

    Rows are rows of the table of places. Lists have one number per landmark seed; other fields are of landmark seed 0.
    `bound` is the distance from each query to its nearest landmark on the ground. `bound_positive` and
    `bound_negative` are the percentages of an encoder that always retrieves that landmark.
    """

    queries: Ints  # rows
    landmarks: Ints  # rows
    retrieved: Ints  # row of the landmark nearest by feature, per query
    errors: Floats  # distance to that landmark, per query
    bound: Floats
    landmark_seeds: list[int]
    positive: list[float]  # percent of the queries within the positive radius
    negative: list[float]  # percent of the queries within the negative radius
    bound_positive: list[float]
    bound_negative: list[float]
    recall: dict[str, float]  # by the number of landmarks

    def __post_init__(self) -> None:
        for name in ("retrieved", "errors", "bound"):
            if len(getattr(self, name)) != len(self.queries):
                have = f"{len(self.queries):,} queries, but {len(getattr(self, name)):,} values of {name!r}"
                raise ValueError(f"table1 has {have}")
        counts = [len(one) for one in (self.landmark_seeds, self.positive, self.negative)]
        if len(set(counts)) > 1:
            have = f"{counts[0]} landmark seeds, but {counts[1]} and {counts[2]} percentages"
            raise ValueError(f"table1 has {have}")


@dataclass(frozen=True, kw_only=True)
class Result:
    """The result of one model on one set. Radii and distances are in `unit`.

    `scored` holds the result of each protocol by name. `skipped` holds the reasons of protocols that do not apply to
    the set. `failed` holds the errors of protocols that will be run again. Per query, `ids`, `conditions` and `blocks`
    hold its place_id, its condition and its block for the bootstrap. `row` is a name of `rows.ROWS`, or the user's
    name for the model.
    """

    set: str
    frame: str
    unit: str
    positive_radius: float
    negative_radius: float
    row: str
    title: str
    seed: int | None
    encoder: str  # fingerprint
    settings: Mapping[str, Any]
    setup: str  # fingerprint of the setup and its images
    ids: Strings
    conditions: Strings
    blocks: Ints
    scored: Mapping[str, object] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)  # `Protocol.key` of each protocol's result
    ran: Mapping[str, Any] = field(default_factory=dict)  # hardware, versions, date, command
    map: Mapping[str, str] = field(default_factory=dict)  # digests of the parts of an evaluated map

    def __post_init__(self) -> None:
        found = self.get(Accuracy)
        if found is not None and len(found.queries) != len(self.ids):
            raise ValueError(f"table1 has {len(found.queries):,} queries, but the result has {len(self.ids):,}")

    def get(self, kind: type[R]) -> R | None:
        """The protocol result of this kind; None if the protocol was not run."""
        return next((one for one in self.scored.values() if isinstance(one, kind)), None)

    def save(self, folder: Path) -> None:
        """Write `result.json` and `arrays.safetensors`; both replace existing files.

        `result.json` decides which arrays are valid. So the new arrays have another name until it is replaced: a save
        that is killed leaves the old result or the new one.
        """
        facts: dict[str, Any] = {"mappable": version_of_mappable()}
        facts |= {name: getattr(self, name) for name in FACTS}
        facts |= {
            "settings": dict(self.settings),
            "ran": dict(self.ran),
            "keys": dict(self.keys),
            "map": dict(self.map),
        }
        arrays: Arrays = {}
        protocols = {name: to_json(one, arrays, name) for name, one in self.scored.items()}
        facts |= {"protocols": protocols, "skipped": dict(self.skipped), "failed": dict(self.failed)}
        queries = {"id": self.ids.tolist(), "condition": self.conditions.tolist(), "block": self.blocks.tolist()}
        packed = save(arrays)
        facts |= {"queries": queries, "arrays": hashlib.sha256(packed).hexdigest()}
        write_atomically(folder / NEXT_ARRAYS, lambda stream: stream.write(packed))
        FORMAT.write(folder / RESULT, facts)
        with writing(folder / ARRAYS):
            (folder / NEXT_ARRAYS).replace(folder / ARRAYS)

    @classmethod
    def load(cls, path: Path) -> "Result":
        """Read the result in a folder, or of its file `result.json`; raises for a result of an older version."""
        from mappable.evaluation.protocols import PROTOCOLS  # protocols import this module

        folder = path.parent if path.name == RESULT else path
        with FORMAT.reading(folder / RESULT):
            facts = FORMAT.read(folder / RESULT)
            packed = _packed(folder, facts["arrays"])
            arrays, queries, kinds = load(packed), facts["queries"], get_type_hints(cls)
            mappings = {name: from_json(dict[str, Any], facts[name], arrays) for name in MAPPINGS}
            protocols = {name: one for name, one in facts["protocols"].items() if name in PROTOCOLS}
            return cls(
                **{name: from_json(kinds[name], facts[name], arrays) for name in FACTS},
                **mappings,
                ids=np.array(queries["id"], dtype=object),
                conditions=np.array(queries["condition"], dtype=object),
                blocks=np.array(queries["block"], dtype=np.int64),
                scored={name: from_json(PROTOCOLS[name].kind, one, arrays) for name, one in protocols.items()},
            )


def _packed(folder: Path, expected: str) -> bytes:
    """The bytes of the arrays; a save that was killed left them under the name for the next ones."""
    for name in (ARRAYS, NEXT_ARRAYS):
        file = folder / name
        if file.exists() and hashlib.sha256(packed := file.read_bytes()).hexdigest() == expected:
            return packed
    (folder / ARRAYS).read_bytes()  # raises if it is missing
    raise ValueError(f"{ARRAYS} does not match its checksum in {RESULT}")


def fingerprint_of(setup: Setup, images: str) -> str:
    """The fingerprint of a setup and of its images, given their digest."""
    return f"{setup.fingerprint} {images}".strip()


def empty_result(
    setup: Setup, *, row: str, title: str, seed: int | None, encoder: str, settings: Mapping[str, Any], images: str = ""
) -> Result:
    """The result of a model before any protocol has run."""
    return Result(
        set=setup.name,
        frame=str(setup.places.frame[setup.queries[0]]),
        unit=setup.unit,
        positive_radius=setup.positive_radius,
        negative_radius=setup.negative_radius,
        row=row,
        title=title,
        seed=seed,
        encoder=encoder,
        settings=settings,
        setup=fingerprint_of(setup, images),
        ids=setup.places.place_id[setup.queries],
        conditions=setup.places.condition[setup.queries],
        blocks=setup.blocks,
    )
