"""The reader of the COLD database: poses in file names, every spelling of its folders, and the paper's protocols."""

from pathlib import Path

import pytest

from mappable.places.notes import Note
from mappable.places.table import Places
from mappable.readers.registry import read_places

NAME = "t1152886490.040076_x0.205133_y-1.000557_a0.002507.jpeg"


def touch(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names or (NAME,):
        (folder / name).touch()
    return folder


def sequences(root: Path, lab: str, *names: str) -> None:
    """Sequences of one image each, in the plainest layout."""
    for name in names:
        touch(root / lab / name / "std_cam")


def note(places: Places, words: str) -> Note:
    (found,) = [one for one in places.notes if words in one.text]
    return found


@pytest.mark.parametrize(
    ("name", "pose"),
    [
        (
            "t1152886490.040076_x0.205133_y-1.000557_a0.002507.jpeg",
            (1152886490040076000, 0.205133, -1.000557, 0.002507),
        ),
        ("t+1.5e3_x-.5_y+2._a-1E-3.JPG", (1_500 * 10**9, -0.5, 2.0, -1e-3)),
    ],
)
def test_any_signed_number_with_or_without_exponent_is_read_exactly(
    tmp_path: Path, name: str, pose: tuple[float, ...]
) -> None:
    touch(tmp_path / "freiburg/seq1_cloudy1/std_cam", name)
    places = read_places("cold", tmp_path)
    assert (places.time[0], places.x[0], places.y[0], places.yaw[0]) == pose


FREIBURG_A = [
    f"seq{path}_{kind}{run}"
    for path in (1, 2)
    for kind in ("cloudy", "night", "sunny")
    for run in (1, 2, 3)
]


def uses(places: Places) -> dict[str, tuple[str, str]]:
    columns = zip(places.sequence, places.split, places.role, strict=True)
    return {sequence: (split, role) for sequence, split, role in columns}


def test_the_paper_trains_on_runs_1_2_4_of_freiburg_a_and_tests_on_runs_3(tmp_path: Path) -> None:
    sequences(tmp_path, "freiburg", *FREIBURG_A, "seq1_sunny4", "seq2_sunny5", "seq3_cloudy3")
    touch(tmp_path / "freiburg" / "seq1_sunny4" / "std_cam", "t1_x0_y0_a0.jpeg")
    sequences(tmp_path, "saarbruecken", "seq1_cloudy3")
    places = read_places("cold", tmp_path, protocol="paper")
    expected = {
        f"freiburg-a/{name}": ("test" if name.endswith("3") else "train", "") for name in FREIBURG_A
    }
    assert uses(places) == expected | {"freiburg-a/seq1_sunny4": ("train", "")}
    counts = note(places, "paper:")
    assert str(counts) == "train 14 images (paper: 29,237); test 6 images (paper: 12,831)"
    assert not counts.warning
    others = note(places, "not in protocol paper")
    assert others.items == (
        "freiburg-a/seq2_sunny5",
        "freiburg-b/seq3_cloudy3",
        "saarbruecken-a/seq1_cloudy3",
    )
    assert not others.warning
    assert [one for one in places.notes if one.warning] == []


@pytest.mark.parametrize(
    ("lab", "part", "present", "reference", "queries"),
    [
        (
            "freiburg",
            "a",
            FREIBURG_A,
            "seq2_sunny2",
            ["seq2_cloudy3", "seq2_night3", "seq2_sunny3"],
        ),
        (
            "freiburg",
            "b",
            ["seq3_cloudy1", "seq3_cloudy2", "seq3_cloudy3", "seq3_sunny1", "seq3_sunny2"],
            "seq3_cloudy1",
            ["seq3_cloudy2", "seq3_sunny2"],
        ),
        (
            "saarbruecken",
            "b",
            [
                f"seq{path}_{kind}{run}"
                for path in (3, 4)
                for kind in ("cloudy", "night", "sunny")
                for run in (1, 2)
            ],
            "seq4_cloudy1",
            ["seq4_cloudy2", "seq4_night2", "seq4_sunny2"],
        ),
    ],
)
def test_generalization_has_one_reference_and_the_papers_queries(
    tmp_path: Path, lab: str, part: str, present: list[str], reference: str, queries: list[str]
) -> None:
    sequences(tmp_path, lab, *present)
    places = read_places("cold", tmp_path, protocol=f"generalization-{lab}-{part}")
    expected = {f"{lab}-{part}/{query}": ("test", "query") for query in queries}
    assert uses(places) == expected | {f"{lab}-{part}/{reference}": ("test", "reference")}
    assert [one for one in places.notes if one.warning] == []
