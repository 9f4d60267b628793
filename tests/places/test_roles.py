"""The use of each image (training, landmarks, calibration or queries), for any mix of splits and roles."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappable.places.frames import Frame
from mappable.places.roles import describe_use
from mappable.places.table import ROLES, SPLITS, Places


def table(*rows: tuple[str, str], frame: list[str] | None = None) -> Places:
    """A table with one row for each split and role."""
    numbers = np.arange(float(len(rows)))
    return Places(
        path=[f"{row}.jpg" for row in range(len(rows))],
        x=numbers,
        y=numbers,
        sequence=frame,
        frame=frame or "town",
        frames=[Frame("town"), Frame("village")],
        split=[split for split, _ in rows],
        role=[role for _, role in rows],
    )


def groups(places: Places) -> tuple[list[int], list[int], list[int], list[int]]:
    """Rows of training images, references, calibration images and queries."""
    rows = places.training(), places.references(), places.calibration(), places.queries()
    return rows[0].tolist(), rows[1].tolist(), rows[2].tolist(), rows[3].tolist()


@pytest.mark.parametrize(
    ("rows", "training", "references", "calibration", "queries"),
    [
        ([("train", ""), ("calibration", ""), ("test", ""), ("", "")], [0], [0], [1], [2]),
        ([("", "reference"), ("", "query"), ("", "")], [0], [0], [], [1]),
        ([("", ""), ("", "query")], [0], [0], [], [1]),
        ([("", ""), ("", "")], [0, 1], [0, 1], [], []),
        ([("", ""), ("calibration", "")], [0], [0], [1], []),
        ([("", ""), ("test", "")], [0], [0], [], [1]),
        ([("", "reference"), ("calibration", "query"), ("", "query")], [0], [0], [1], [2]),
        # Each split with references and queries, as in Pittsburgh 30k and MSLS.
        ([("train", "reference"), ("train", "query"), ("test", "reference")], [0, 1], [0, 1], [], [2]),
        ([("train", "reference"), ("train", "query"), ("test", "query")], [0, 1], [0, 1], [], [2]),
        ([("train", "reference"), ("train", "query")], [0, 1], [0, 1], [], []),
        ([("test", "reference"), ("test", "query")], [], [0], [], [1]),
        ([("calibration", "reference"), ("calibration", "query")], [], [0], [1], []),
        # Parts of a simulated world beside the main one.
        ([("train", ""), ("test", ""), ("", "reference"), ("", "query")], [0], [0], [], [1]),
        ([("calibration", ""), ("test", "")], [], [], [0], [1]),
        ([("", "query")], [], [], [], [0]),
        ([], [], [], [], []),
    ],
)  # fmt: skip
def test_splits_come_before_roles(
    rows: list[tuple[str, str]],
    training: list[int],
    references: list[int],
    calibration: list[int],
    queries: list[int],
) -> None:
    assert groups(table(*rows)) == (training, references, calibration, queries)


def test_images_in_another_frame_than_the_references_do_not_calibrate() -> None:
    rows = [("train", ""), ("calibration", ""), ("calibration", "")]
    assert table(*rows, frame=["town", "town", "village"]).calibration().tolist() == [1]
    assert table(*rows[1:], frame=["town", "village"]).calibration().tolist() == [0, 1]


@given(st.lists(st.tuples(st.sampled_from(SPLITS), st.sampled_from(ROLES)), max_size=8))
def test_no_image_has_two_uses(rows: list[tuple[str, str]]) -> None:
    places = table(*rows)
    training, references, calibration, queries = map(set, groups(places))
    assert training.isdisjoint(calibration | queries)
    assert calibration.isdisjoint(queries)
    assert references.isdisjoint(calibration | queries)
    assert training <= references
    assert set(places.split[list(training)]) <= {"", "train"}
    assert not any(rows[row] == ("", "query") for row in training | references)
    assert {row for row, (split, _) in enumerate(rows) if split == "train"} <= training
    assert {row for row, (split, _) in enumerate(rows) if split == "test"} <= queries | references


def test_what_is_taken_and_left_out_is_counted() -> None:
    places = table(*[("train", "")] * 1204, *[("test", "")] * 2, ("calibration", ""), ("", ""))
    counted = "1,204 references; 1 calibration image, 2 queries and 1 other image left out"
    assert (
        describe_use(places, "training on", references=places.training())
        == f"training on {counted}"
    )
    rows = {
        "references": places.references(),
        "calibration": places.calibration(),
        "queries": places.queries(),
    }
    assert "left out" not in describe_use(places[:1207], "using", **rows)
    assert describe_use(places[:0], "using", queries=np.arange(0)) == "using nothing"
