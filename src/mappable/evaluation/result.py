"""The result of one model on one set: the results of all protocols, saved in a folder that can be compared."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from mappable.arrays import Floats, Ints, Strings
from mappable.evaluation.records import from_json, to_json
from mappable.evaluation.setup import Setup
from mappable.features.about import version_of_mappable
from mappable.formats import Format

RESULT = "result.json"
FORMAT = Format(
    "mappable result",
    5,
    "evaluate again",
    sealed_since=4,
    limit=2**31,
    if_missing="give a folder that `mappable evaluate` wrote",
)

R = TypeVar("R")


@dataclass(frozen=True)
class Accuracy:
    """The result of protocol `table1`, which comparisons use. Percentages are from 0 to 100.

    Rows are rows of the table of places. Lists have one number per landmark seed; other fields are
    of landmark seed 0. `bound` is the distance from each query to its nearest landmark on the
    ground. `bound_positive` and `bound_negative` are the percentages of an encoder that always
    retrieves that landmark.
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
    chance_positive: float  # percent of the queries that a random landmark finds
    chance_negative: float
    recall: dict[str, float]  # by the number of landmarks

    def __post_init__(self) -> None:
        for name in ("retrieved", "errors", "bound"):
            if len(getattr(self, name)) != len(self.queries):
                have = (
                    f"{len(self.queries):,} queries, but {len(getattr(self, name)):,} values of"
                    f" {name!r}"
                )
                raise ValueError(f"table1 has {have}")
        counts = [len(one) for one in (self.landmark_seeds, self.positive, self.negative)]
        if len(set(counts)) > 1:
            have = f"{counts[0]} landmark seeds, but {counts[1]} and {counts[2]} percentages"
            raise ValueError(f"table1 has {have}")


@dataclass(frozen=True, kw_only=True)
class Result:
    """The result of one model on one set. Radii and distances are in `unit`.

    `scored` holds the result of each protocol by name. `skipped` holds the reasons of protocols
    that do not apply to the set. `failed` holds the errors of protocols that will be run again. Per
    query, `ids`, `conditions` and `blocks` hold its place_id, its condition and its block for the
    bootstrap. `row` is a name of `rows.ROWS`, or the user's name for the model.
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
    scored: Mapping[str, Any] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    ran: Mapping[str, Any] = field(default_factory=dict)  # hardware, versions, date, command
    map: Mapping[str, str] = field(default_factory=dict)  # digests of the parts of an evaluated map

    def __post_init__(self) -> None:
        accuracy = self.get(Accuracy)
        if accuracy is not None and len(accuracy.queries) != len(self.ids):
            raise ValueError(
                f"table1 has {len(accuracy.queries):,} queries, but the result has"
                f" {len(self.ids):,}"
            )

    def get(self, kind: type[R]) -> R | None:
        """The protocol result of this kind; None if the protocol was not run."""
        return next((one for one in self.scored.values() if isinstance(one, kind)), None)

    def save(self, folder: Path) -> None:
        """Write `result.json`, which replaces an existing one."""
        FORMAT.write(folder / RESULT, {"mappable": version_of_mappable(), **to_json(self)})

    @classmethod
    def load(cls, path: Path) -> "Result":
        """Read the result in a folder, or of its file `result.json`; raises for a result of an
        older version.
        """
        from mappable.evaluation.protocols import PROTOCOLS  # protocols import this module

        file = path if path.name == RESULT else path / RESULT
        with FORMAT.reading(file):
            facts, kinds = FORMAT.read(file), get_type_hints(cls)
            scored = {
                name: from_json(PROTOCOLS[name].kind, one)
                for name, one in facts.pop("scored").items()
            }
            names = [one.name for one in fields(cls) if one.name != "scored"]
            return cls(
                scored=scored, **{name: from_json(kinds[name], facts[name]) for name in names}
            )


def empty_result(
    setup: Setup,
    *,
    row: str,
    title: str,
    seed: int | None,
    encoder: str,
    settings: Mapping[str, Any],
    images: str = "",
) -> Result:
    """The result of a model before any protocol has run; `images` is their digest."""
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
        setup=f"{setup.fingerprint} {images}".strip(),
        ids=setup.places.place_id[setup.queries],
        conditions=setup.places.condition[setup.queries],
        blocks=setup.blocks,
    )
