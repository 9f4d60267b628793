"""What an evaluation runs on: places, the role of each image, and the radii."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property

import numpy as np
from scipy.spatial import KDTree

from mappable.arrays import Ints, path_length
from mappable.errors import BadInputError
from mappable.evaluation.bootstrap import route_blocks
from mappable.places.table import COLUMNS, Places
from mappable.places.unposed import NOWHERE

NO_ROWS: Ints = np.arange(0)
SWEPT = (50, 100, 200, 400, 800, 1600)  # landmarks


@dataclass(frozen=True)
class Region:
    """A place that the encoder may never have seen: rows of the run that its map is made of, and of its queries."""

    name: str
    reference: Ints
    queries: Ints


@dataclass(frozen=True, kw_only=True)
class Setup:
    """A table of places and how it is evaluated on. Rows are row numbers of `places`.

    Landmarks are chosen among the `references`, `landmarks` of them, or all where that is None. `queries` are located.
    `elsewhere` are images that are not on the map, to calibrate rejection by, and `absent` others, to test it with.
    Radii are in the unit of the places; `block` is the length of stretches that the bootstrap draws, in the same unit.
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
    tolerance: float  # up to which curves are drawn
    counts: tuple[int, ...] = SWEPT  # landmarks of the sweep
    proportional: tuple[str, ...] = ()  # sequences whose pairs are looked at; the first is the one to show
    matrices: tuple[str, str] | None = None  # sequences: of the rows (references) and columns (queries)
    regions: tuple[Region, ...] = ()
    gallery: Ints = field(default_factory=lambda: NO_ROWS)  # references of the qualitative examples
    gallery_landmarks: int = 100
    route: str = ""  # the sequence whose map is recovered
    route_length: float = 672.0  # of it, from its first image on

    def __post_init__(self) -> None:
        for rows, what, which in (
            (self.references, "references", "the split 'train' or the role 'reference'"),
            (self.queries, "queries", "the split 'test' or the role 'query'"),
        ):
            if not len(rows):
                raise BadInputError(f"{self.name}: there are no {what}: no place has {which}")
            nowhere = np.flatnonzero(self.places.frame[rows] == NOWHERE.name)
            if len(nowhere):
                name = self.places.sequence[rows[nowhere[0]]]
                raise BadInputError(f"{self.name}: the sequence {name!r} is among the {what}, but has no positions")
        frames = sorted(set(self.places.frame[np.concatenate([self.references, self.queries])]))
        if len(frames) > 1:
            raise BadInputError(f"{self.name}: references and queries are in different frames: {', '.join(frames)}")
        if self.landmarks is not None and not 1 <= self.landmarks <= len(self.references):
            have = f"there are {len(self.references):,} references"
            raise BadInputError(f"{self.name}: {self.landmarks:,} landmarks are to be chosen, but {have}")
        if not 0 < self.block < np.inf:
            raise BadInputError(f"{self.name}: the length of blocks is {self.block:g}, but must be above 0")
        if not 0 < self.positive_radius <= self.negative_radius:
            radii = f"{self.positive_radius:g} and {self.negative_radius:g}"
            raise BadInputError(f"{self.name}: the radii are {radii}, but must be positive, the first the smaller")

    @property
    def unit(self) -> str:
        """Of positions and radii."""
        return self.places.frames[self.places.frame[self.queries[0]]].unit

    @property
    def blocks(self) -> Ints:
        """The block of each query: that of the nearest place on the longest query sequence, so for all conditions."""
        return blocks_of(self.places, self.queries, self.block)

    @cached_property
    def fingerprint(self) -> str:
        """16 hex digits that change with anything that a result could depend on."""
        digest = hashlib.sha256()
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(value, Places):
                for name in COLUMNS:
                    column = getattr(value, name)
                    digest.update("\0".join(column).encode() if column.dtype == object else column.tobytes())
            elif isinstance(value, np.ndarray):
                digest.update(value.tobytes())
            elif one.name == "regions":
                for region in self.regions:
                    digest.update(region.name.encode() + region.reference.tobytes() + region.queries.tobytes())
            else:
                digest.update(repr(value).encode())
        return digest.hexdigest()[:16]

    def rows_of(self, sequence: str, among: Ints) -> Ints:
        """Those rows `among` others that are of a sequence, in their order."""
        rows: Ints = among[self.places.sequence[among] == sequence]
        if not len(rows):
            raise BadInputError(f"{self.name}: no such images of a sequence {sequence!r}")
        return rows


def blocks_of(places: Places, rows: Ints, length: float) -> Ints:
    """The block of each row: stretches of `length` along the longest of their sequences, the nearest by position."""
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
    """The usual evaluation of any table with splits; what `others` say of a `Setup` comes before what is usual.

    References, queries and calibration images are those of `Places.references`, `queries` and `calibration`. Sequences
    to look at closely are query sequences, the one with the most images first. Of parts beside the main one, which
    have roles and no split, those with a reference sequence of their own are regions to generalise to.
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
    return replace(made, counts=tuple(count for count in made.counts if count <= len(made.references)))


def _pair(places: Places, references: Ints, queries: Sequence[str]) -> tuple[str, str] | None:
    """A reference and a query sequence of the same condition, where there are such."""
    if not len(references) or not queries:
        return None
    known = places[references].sequences()
    conditions = {name: places.condition[references[rows[0]]] for name, rows in known.items()}
    for query in queries:
        for name, condition in conditions.items():
            if condition == places.condition[places.sequence == query][0]:
                return name, query
    return next(iter(known)), queries[0]
