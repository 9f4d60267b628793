"""The use of each image: training, landmarks, calibration or queries. Only this module decides it.

The columns `split` and `role` decide:

- **Training**: images of the split `train`. If there are none, images without a split and with the
  role `reference`. If no image has that role, all images without a split except queries.
- **References** (candidates for landmarks): the training images. If there are none, images of the
  role `reference` with any split.
- **Calibration**: images of the split `calibration` in a frame of the references.
- **Queries**: images of the split `test`. If there are none, images of the role `query` without a
  split.

The split has priority over the role: a query of the split `train` is a training image. References
are never queries and never calibration images, so no image is in two of the groups training,
calibration and queries.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from mappable.arrays import Bools, Ints
from mappable.places.notes import Findings

if TYPE_CHECKING:
    from mappable.places.table import Places


def training(places: "Places") -> Ints:
    """Rows of the training images."""
    train, unsplit = places.split == "train", places.split == ""
    return np.flatnonzero(
        _first(train, unsplit & (places.role == "reference"), unsplit & (places.role != "query"))
    )


def references(places: "Places") -> Ints:
    """Rows of the candidates for landmarks."""
    rows = training(places)
    return rows if len(rows) else np.flatnonzero(places.role == "reference")


def calibration(places: "Places") -> Ints:
    """Rows that calibrate a map of the references."""
    known = references(places)
    frames = set(places.frame[known]) or set(places.frame)
    near = np.array([frame in frames for frame in places.frame], dtype=bool)
    return np.setdiff1d(np.flatnonzero((places.split == "calibration") & near), known)


def queries(places: "Places") -> Ints:
    """Rows to locate in a map of the references."""
    asked = _first(places.split == "test", (places.split == "") & (places.role == "query"))
    return np.setdiff1d(np.flatnonzero(asked), references(places))


def rows_to_locate(places: "Places") -> Ints:
    """Rows to locate in a map of another table: the queries, or all rows if the table has no splits
    and no roles.
    """
    if not any(places.split) and not any(places.role):
        return np.arange(len(places))
    return queries(places)


def split_of(role: str, split: str = "train") -> str:
    """The split of an image in a table that is being split: `test` for queries, else `split`."""
    return "test" if role == "query" else split


def split_sequences(places: "Places", reserved: Mapping[str, str], rest: str) -> list[str]:
    """The split of each image if whole sequences are `reserved` for splits; other images get
    `rest`, queries test.
    """
    both = zip(places.sequence, places.role, strict=True)
    return [reserved.get(sequence, split_of(role, rest)) for sequence, role in both]


def keep_splits(before: "Places", places: "Places", found: Findings) -> "Places":
    """The places with the splits of an earlier table; a note says so if that has splits.

    A new place gets the split of its sequence; in a new sequence it is for training, or for test if
    it is a query.
    """
    if not any(before.split):
        return places
    by_place, by_sequence = (
        dict(zip(names, before.split, strict=True)) for names in (before.place_id, before.sequence)
    )
    usual = {str(name): str(by_sequence.get(name, "train")) for name in set(places.sequence)}
    column = [
        by_place.get(place_id, split_of(role, usual[sequence]))
        for place_id, sequence, role in zip(
            places.place_id, places.sequence, places.role, strict=True
        )
    ]
    found.say(
        "the splits of the existing table were kept; --overwrite discards them", warning=False
    )
    return places.replace(split=column)


def describe_use(places: "Places", doing: str, **rows: Ints) -> str:
    """A sentence with the number of rows that a command uses and leaves out, per group.

    For example `describe_use(places, "training on", references=places.training())` is "training on
    1,204 references; 310 queries left out".
    """
    used = np.concatenate(list(rows.values()))
    groups = {
        "references": references(places),
        "calibration": calibration(places),
        "queries": queries(places),
    }
    left = {name: np.setdiff1d(group, used) for name, group in groups.items()}
    left["others"] = np.setdiff1d(np.arange(len(places)), np.concatenate([used, *groups.values()]))
    without = f"; {_counts(left)} left out" if any(map(len, left.values())) else ""
    return f"{doing} {_counts(rows)}{without}"


_NAMES = {
    "references": ("reference", "references"),
    "calibration": ("calibration image", "calibration images"),
    "queries": ("query", "queries"),
    "others": ("other image", "other images"),
}


def _counts(groups: dict[str, Ints]) -> str:
    """The size of each group that is not empty: "1,204 references, 20 calibration images and 1
    query".
    """
    parts = [
        f"{len(rows):,} {_NAMES[name][len(rows) != 1]}"
        for name, rows in groups.items()
        if len(rows)
    ]
    return " and ".join(
        [", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts or ["nothing"]
    )


def _first(*masks: Bools) -> Bools:
    """The first mask with a True value, else the last mask."""
    return next((mask for mask in masks if mask.any()), masks[-1])
