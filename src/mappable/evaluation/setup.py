"""The setup of an evaluation: places, the role of each image, and the radii."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property

import numpy as np
from scipy.spatial import KDTree

from mappable.arrays import Ints, path_length
from mappable.errors import BadInputError
from mappable.evaluation.bootstrap import route_blocks
from mappable.evaluation.records import to_json
from mappable.places.table import COLUMNS, Places
from mappable.readers.unposed import NOWHERE

NO_ROWS: Ints = np.arange(0)
SWEEP_COUNTS = (50, 100, 200, 400, 800, 1600)  # numbers of landmarks


@dataclass(frozen=True)
class Region:
    """A region that the encoder may never have seen: rows of its reference run and of its queries."""

    name: str
    reference: Ints
    queries: Ints


@dataclass(frozen=True, kw_only=True)
class Setup:
    """A table of places and how an evaluation uses it. Rows are row numbers of `places`.

    `landmarks` is the number of landmarks to choose among the `references`; None takes all.
    `queries` are located. `elsewhere` are images that are not on the map, to calibrate rejection;
    `absent` are others, to test rejection. Radii are in the unit of the places. `block` is the
    length of the stretches that the bootstrap draws, in the same unit.
    """

    name: str
    places: Places
    positive_radius: float
    negative_radius: float
    landmarks: int | None
    references: Ints
    queries: Ints
    calibration: Ints = field(default_factory=lambda: NO_ROWS)
    elsewhere: Ints = field(default_factory=lambda: NO_ROWS)
    absent: Ints = field(default_factory=lambda: NO_ROWS)
    block: float
    tolerance: float  # largest tolerance of the curves
    counts: tuple[int, ...] = SWEEP_COUNTS  # numbers of landmarks in the sweep
    # Sequences of the protocol proportionality; figures show the first.
    proportional: tuple[str, ...] = ()
    # A reference sequence (matrix rows) and a query sequence (columns)
    matrices: tuple[str, str] | None = None
    regions: tuple[Region, ...] = ()
    gallery: Ints = field(default_factory=lambda: NO_ROWS)  # references of the qualitative examples
    gallery_landmarks: int = 100
    route: str = ""  # the sequence whose route is recovered
    route_length: float = 672.0  # stretch of that sequence, from its first image

    def __post_init__(self) -> None:
        for rows, what, which in (
            (self.references, "references", "the split 'train' or the role 'reference'"),
            (self.queries, "queries", "the split 'test' or the role 'query'"),
        ):
            if not len(rows):
                raise BadInputError(f"{self.name}: no {what}; no place has {which}")
            nowhere = np.flatnonzero(self.places.frame[rows] == NOWHERE.name)
            if len(nowhere):
                name = self.places.sequence[rows[nowhere[0]]]
                raise BadInputError(
                    f"{self.name}: sequence {name!r} is among the {what}, but has no positions"
                )
        frames = sorted(set(self.places.frame[np.concatenate([self.references, self.queries])]))
        if len(frames) > 1:
            raise BadInputError(
                f"{self.name}: references and queries are in different frames: {', '.join(frames)}"
            )
        if self.landmarks is not None and not 1 <= self.landmarks <= len(self.references):
            most = f"1 to {len(self.references):,}, the number of references"
            raise BadInputError(f"{self.name}: landmarks must be {most}, got {self.landmarks:,}")
        if not 0 < self.block < np.inf:
            raise BadInputError(f"{self.name}: block length must be above 0, got {self.block:g}")
        if not 0 < self.positive_radius <= self.negative_radius:
            radii = f"{self.positive_radius:g} and {self.negative_radius:g}"
            raise BadInputError(
                f"{self.name}: radii must be above 0, the positive the smaller one, got {radii}"
            )

    @property
    def unit(self) -> str:
        """The unit of positions and radii."""
        return self.places.frames[self.places.frame[self.queries[0]]].unit

    @property
    def blocks(self) -> Ints:
        """The block of each query: the block of the nearest place on the longest query sequence,
        for all conditions.
        """
        return blocks_of(self.places, self.queries, self.block)

    @cached_property
    def fingerprint(self) -> str:
        """16 hex digits that change with everything that a result could depend on."""
        facts = {
            one.name: to_json(getattr(self, one.name))
            for one in fields(self)
            if one.name != "places"
        }
        digest = hashlib.sha256(json.dumps(facts).encode())
        for name in COLUMNS:
            column = getattr(self.places, name)
            digest.update(
                "\0".join(column).encode() if column.dtype == object else column.tobytes()
            )
        return digest.hexdigest()[:16]

    def rows_of(self, sequence: str, among: Ints) -> Ints:
        """The rows `among` others that belong to a sequence, in their order."""
        rows: Ints = among[self.places.sequence[among] == sequence]
        if not len(rows):
            raise BadInputError(f"{self.name}: sequence {sequence!r} has no such images")
        return rows


def blocks_of(places: Places, rows: Ints, length: float) -> Ints:
    """The block of each row: stretches of `length` along the longest sequence, found by the nearest
    place on it.
    """
    sequences = places[rows].sequences()
    ways = {name: path_length(places.positions[rows[own]]) for name, own in sequences.items()}
    longest = max(ways, key=lambda name: float(ways[name][-1]))
    positions = places.positions[rows]
    nearest = KDTree(positions[sequences[longest]]).query(positions)[1]
    return route_blocks(ways[longest][nearest], length)


def setup_of(
    name: str,
    places: Places,
    *,
    positive_radius: float,
    negative_radius: float,
    landmarks: int | None = None,
    block: float | None = None,
    **others: object,
) -> Setup:
    """The default setup of any table with splits or roles; `others` are fields of `Setup` that
    override defaults.

    References, queries and calibration images come from `Places.references`, `queries` and
    `calibration`. The sequences for closer inspection are the query sequences, the one with the
    most images first.
    """
    references, queries = places.references(), places.queries()
    found = places[queries].sequences() if len(queries) else {}
    sequences = sorted(found, key=lambda one: -len(found[one]))
    usual: dict[str, object] = {
        "references": references,
        "queries": queries,
        "calibration": places.calibration(),
        "tolerance": negative_radius,
        "proportional": tuple(sequences),
        "matrices": _pair(places, references, sequences),
        "gallery": references,
        "route": sequences[0] if sequences else "",
    }
    made = Setup(
        name=name,
        places=places,
        positive_radius=positive_radius,
        negative_radius=negative_radius,
        landmarks=None if landmarks is None else min(landmarks, len(references)),
        block=negative_radius if block is None else block,
        **usual | others,  # type: ignore[arg-type]
    )
    return replace(
        made, counts=tuple(count for count in made.counts if count <= len(made.references))
    )


def _pair(places: Places, references: Ints, queries: Sequence[str]) -> tuple[str, str] | None:
    """A reference and a query sequence, of the same condition if possible."""
    if not len(references) or not queries:
        return None
    known = places[references].sequences()
    conditions = {name: places.condition[references[rows[0]]] for name, rows in known.items()}
    for query in queries:
        for name, condition in conditions.items():
            if condition == places.condition[places.sequence == query][0]:
                return name, query
    return next(iter(known)), queries[0]
