"""The result of one model on one set: what each protocol found, for every query; a folder that others can compare."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load, save

from mappable.arrays import Ints, Strings
from mappable.evaluation.scoring import Arrays, Scored
from mappable.evaluation.setup import Setup
from mappable.features.about import version_of_mappable
from mappable.files import write_atomically
from mappable.formats import Format

RESULT, ARRAYS = "result.json", "arrays.safetensors"
FORMAT = Format("mappable result", 1, "evaluate again")
FACTS = ("set", "frame", "unit", "positive_radius", "negative_radius", "row", "title", "seed", "encoder", "setup")


@dataclass(frozen=True, kw_only=True)
class Result:
    """What one model came to. Radii and distances are in `unit`.

    `scored` has what each protocol found, by its name, and `skipped` why others could not be run. Of each query `ids`,
    `conditions` and `blocks` have its place_id, its condition and its block of the bootstrap. `row` is a name of
    `rows.ROWS` or what a user calls the model.
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
    setup: str  # fingerprint of what was evaluated on, images included
    ids: Strings
    conditions: Strings
    blocks: Ints
    scored: Mapping[str, Scored] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)  # what each depends on; another key is another result
    ran: Mapping[str, Any] = field(default_factory=dict)  # hardware, versions, date, command

    def values(self, protocol: str) -> dict[str, Any] | None:
        """What a protocol found, None where it was not run."""
        return self.scored[protocol].values if protocol in self.scored else None

    def arrays(self, protocol: str) -> Arrays:
        """The arrays of a protocol, none where it was not run."""
        return self.scored[protocol].arrays if protocol in self.scored else {}

    def save(self, folder: Path) -> None:
        """Write `result.json` and `arrays.safetensors`; both replace what was there before."""
        facts: dict[str, Any] = {"mappable": version_of_mappable()}
        facts |= {name: getattr(self, name) for name in FACTS}
        facts |= {"settings": dict(self.settings), "ran": dict(self.ran), "keys": dict(self.keys)}
        facts |= {"protocols": {name: one.values for name, one in self.scored.items()}, "skipped": dict(self.skipped)}
        queries = {"id": self.ids.tolist(), "condition": self.conditions.tolist(), "block": self.blocks.tolist()}
        arrays = {
            f"{protocol}/{name}": np.ascontiguousarray(array)
            for protocol, one in self.scored.items()
            for name, array in one.arrays.items()
        }
        packed = save(arrays)
        facts |= {"queries": queries, "arrays": hashlib.sha256(packed).hexdigest()}
        write_atomically(folder / ARRAYS, lambda stream: stream.write(packed))
        FORMAT.write(folder / RESULT, facts)

    @classmethod
    def load(cls, path: Path) -> "Result":
        """The result in a folder, or of its file `result.json`."""
        folder = path.parent if path.name == RESULT else path
        with FORMAT.reading(folder / RESULT):
            facts = FORMAT.read(folder / RESULT)
            packed = (folder / ARRAYS).read_bytes()
            if hashlib.sha256(packed).hexdigest() != facts["arrays"]:
                raise ValueError(f"{ARRAYS} is not the one that belongs to it")
            found = load(packed)
            queries, protocols = facts["queries"], facts["protocols"]
            return cls(
                **{name: facts[name] for name in FACTS},
                **{name: facts[name] for name in ("settings", "skipped", "keys", "ran")},
                ids=np.array(queries["id"], dtype=object),
                conditions=np.array(queries["condition"], dtype=object),
                blocks=np.array(queries["block"], dtype=np.int64),
                scored={name: Scored(values, _below(name, found)) for name, values in protocols.items()},
            )


def fingerprint_of(setup: Setup, images: str) -> str:
    """Of a set and the digest of its images."""
    return f"{setup.fingerprint} {images}".strip()


def empty_result(
    setup: Setup, *, row: str, title: str, seed: int | None, encoder: str, settings: Mapping[str, Any], images: str = ""
) -> Result:
    """That of a model of which nothing is known yet."""
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


def _below(protocol: str, arrays: Arrays) -> Arrays:
    start = f"{protocol}/"
    return {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}
