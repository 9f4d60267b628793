"""The reader of the COLD database: poses in file names, every spelling of its folders, and the paper's protocols."""

import tempfile
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mappable.errors import BadInputError
from mappable.places.images import load_image
from mappable.places.notes import Note
from mappable.places.readers import find_reader, read_places
from mappable.places.table import Places

NAME = "t1152886490.040076_x0.205133_y-1.000557_a0.002507.jpeg"
PROTOCOLS = ("paper", "generalisation-freiburg-a", "generalisation-freiburg-b", "generalisation-saarbruecken-b")


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


def test_the_name_of_an_image_is_its_pose(tmp_path: Path) -> None:
    touch(tmp_path / "freiburg" / "seq2_sunny3" / "std_cam")
    places = read_places("cold", tmp_path)
    assert places.path.tolist() == [f"freiburg/seq2_sunny3/std_cam/{NAME}"]
    assert (places.x[0], places.y[0], places.yaw[0]) == (0.205133, -1.000557, 0.002507)
    assert places.time[0] == 1152886490040076000
    assert places.place_id[0] == "freiburg-a/seq2_sunny3/t1152886490.040076_x0.205133_y-1.000557_a0.002507"
    assert (places.sequence[0], places.condition[0]) == ("freiburg-a/seq2_sunny3", "sunny")
    assert (places.split[0], places.role[0]) == ("", "")
    assert np.isnan(places.z[0])
    assert places.frames["freiburg-a"].unit == "m"
    assert places.notes == ()


def test_images_are_packed_at_320x240_unless_told_otherwise(tmp_path: Path, draw: Callable[..., Path]) -> None:
    assert find_reader("cold").image_size == (320, 240)
    draw(tmp_path / "freiburg" / "seq1_night1" / "std_cam" / NAME, size=(640, 480))
    places = read_places("cold", tmp_path)
    assert load_image(places.files[0], (320, 240)).shape == (240, 320, 3)


@pytest.mark.parametrize(
    "folder",
    [
        "freiburg/seq1_cloudy1/std_cam",
        "cold-freiburg/seq1_cloudy1/std_cam",
        "freiburg/part_a/seq1_cloudy1/std_cam",
        "COLD/db/cold-freiburg/part_a/seq1_cloudy1/std_cam",
        "cold-freiburg_part_a_seq1_cloudy1/std_cam",
        "cold-freiburg_part_a_seq1_cloudy1",
        "freiburg/seq1_cloudy1/seq1_cloudy1/std_cam",
        "cold-freiburg_part_a_seq1_cloudy1/seq1_cloudy1/std_cam",
        "fr_seq1_cloudy1/std_cam",
        "freiburg/fr_seq1_cloudy1/std_cam",
        "freiburg/sq1_cloudy1/std_cam",
        "Freiburg/Part_A/Seq1_Cloudy1/STD_CAM",
    ],
)
def test_every_spelling_of_the_folders_gives_the_same_places(tmp_path: Path, folder: str) -> None:
    touch(tmp_path / folder)
    places = read_places("cold", tmp_path)
    assert places.path.tolist() == [f"{folder}/{NAME}"]
    assert places.place_id.tolist() == [f"freiburg-a/seq1_cloudy1/{NAME.removesuffix('.jpeg')}"]
    assert places.sequence.tolist() == ["freiburg-a/seq1_cloudy1"]
    assert places.notes == ()


@pytest.mark.parametrize(
    ("folder", "frame"),
    [
        ("freiburg/seq1_night2", "freiburg-a"),
        ("freiburg/seq2_night2", "freiburg-a"),
        ("freiburg/sq3_cloudy1", "freiburg-b"),
        ("sa_seq1_cloudy1", "saarbruecken-a"),
        ("saarbruecken/seq2_cloudy1", "saarbruecken-a"),
        ("cold-saarbruecken/part_b/seq3_cloudy1", "saarbruecken-b"),
        ("sa_seq4_sunny2", "saarbruecken-b"),
        ("lj_seq1_cloudy1", "ljubljana-a"),
        ("cold-ljubljana_part_a_seq2_sunny1", "ljubljana-a"),
        ("ljubljana/part_b/seq7_sunny1", "ljubljana-b"),
    ],
)
def test_each_part_of_each_lab_is_a_frame_of_its_own(tmp_path: Path, folder: str, frame: str) -> None:
    touch(tmp_path / folder / "std_cam")
    places = read_places("cold", tmp_path)
    assert places.frame.tolist() == [frame]
    assert list(places.frames) == [frame]


@pytest.mark.parametrize("depth", range(5))
def test_root_may_be_the_lab_the_part_the_sequence_or_the_camera(tmp_path: Path, depth: int) -> None:
    inner = ("cold-freiburg", "part_a", "seq1_cloudy1", "std_cam")
    touch(tmp_path.joinpath(*inner))
    places = read_places("cold", tmp_path.joinpath(*inner[:depth]))
    assert places.sequence.tolist() == ["freiburg-a/seq1_cloudy1"]
    assert places.path.tolist() == ["/".join((*inner[depth:], NAME))]


def test_a_lab_further_up_does_not_count_when_a_folder_between_says_nothing(tmp_path: Path) -> None:
    root = touch(tmp_path / "freiburg" / "downloads" / "seq1_cloudy1" / "std_cam").parent
    with pytest.raises(BadInputError, match=r"lab.*freiburg"):
        read_places("cold", root)


def test_the_lab_can_be_said_for_folders_that_name_none(tmp_path: Path) -> None:
    touch(tmp_path / "seq4_night1" / "std_cam")
    touch(tmp_path / "freiburg" / "seq3_cloudy1" / "std_cam")
    places = read_places("cold", tmp_path, lab="saarbruecken")
    assert places.sequence.tolist() == ["freiburg-b/seq3_cloudy1", "saarbruecken-b/seq4_night1"]


@pytest.mark.parametrize(
    ("folder", "problem"),
    [
        ("freiburg/part_b/seq1_cloudy1", "seq1 of freiburg belongs to part_a, but is in part_b"),
        ("cold-saarbruecken_part_a_seq3_cloudy1", "seq3 of saarbruecken belongs to part_b, but is in part_a"),
        ("freiburg/sa_seq1_cloudy1", "lab saarbruecken is inside lab freiburg"),
        ("freiburg/part_a/cold-freiburg_part_b_seq3_cloudy1", "part b is inside part a"),
        ("freiburg/seq1_cloudy1/seq1_cloudy2", "sequence seq1_cloudy2 is inside sequence seq1_cloudy1"),
        ("freiburg/seq9_cloudy1", "unknown part for seq9 of freiburg"),
    ],
)
def test_folders_that_contradict_each_other_are_refused_by_name(tmp_path: Path, folder: str, problem: str) -> None:
    touch(tmp_path / folder)
    with pytest.raises(BadInputError) as caught:
        read_places("cold", tmp_path)
    assert str(caught.value).startswith(f"{tmp_path / folder}: {problem}")


def test_one_sequence_under_two_spellings_is_refused_naming_both_folders(tmp_path: Path) -> None:
    first = touch(tmp_path / "cold-freiburg_part_a_seq1_cloudy1" / "std_cam")
    second = touch(tmp_path / "freiburg" / "seq1_cloudy1" / "std_cam")
    with pytest.raises(BadInputError) as caught:
        read_places("cold", tmp_path)
    assert str(caught.value) == f"duplicate sequence freiburg-a/seq1_cloudy1: in {first} and in {second}"


def test_other_sensors_and_hidden_files_are_left_alone(tmp_path: Path) -> None:
    sequence = tmp_path / "freiburg" / "seq1_cloudy1"
    touch(sequence / "std_cam", NAME, ".DS_Store", "._" + NAME)
    touch(sequence / "omni_cam")
    touch(sequence / "localization", "places.lst")
    touch(sequence / "odom_scans", "odom.tdf")
    touch(sequence, "README")
    places = read_places("cold", tmp_path)
    assert len(places) == 1
    assert places.notes == ()


def test_files_that_are_no_poses_are_listed(tmp_path: Path) -> None:
    sequence = tmp_path / "freiburg" / "seq1_cloudy1"
    touch(sequence / "std_cam", NAME, "Thumbs.db", "t1_x2_y3.jpeg")
    touch(sequence / "plots", "map.png")
    places = read_places("cold", tmp_path)
    assert len(places) == 1
    folder = "freiburg/seq1_cloudy1"
    assert set(note(places, "not named").items) == {
        f"{folder}/std_cam/Thumbs.db",
        f"{folder}/std_cam/t1_x2_y3.jpeg",
        f"{folder}/plots/map.png",
    }


def test_images_outside_any_sequence_and_sequences_without_images_are_listed(tmp_path: Path) -> None:
    sequences(tmp_path, "freiburg", "seq1_cloudy1")
    touch(tmp_path / "freiburg" / "backup")
    (tmp_path / "freiburg" / "seq1_cloudy2" / "std_cam").mkdir(parents=True)
    places = read_places("cold", tmp_path)
    assert len(places) == 1
    assert note(places, "outside a sequence folder").items == (f"freiburg/backup/{NAME}",)
    assert note(places, "contain no images").items == ("freiburg/seq1_cloudy2",)


def test_numbers_too_large_to_be_a_pose_are_listed(tmp_path: Path) -> None:
    bad = ["t1e30_x0_y0_a0.jpeg", "t1e999999999999_x0_y0_a0.jpeg", "t5_x1e999_y0_a0.jpeg", "t5_x0_y-1e999_a0.jpeg"]
    touch(tmp_path / "freiburg" / "seq1_cloudy1", NAME, *bad, "t5_x0_y0_a1e999.jpeg")
    places = read_places("cold", tmp_path)
    assert len(places) == 1
    listed = note(places, "out of range").items
    assert set(listed) == {f"freiburg/seq1_cloudy1/{name}" for name in (*bad, "t5_x0_y0_a1e999.jpeg")}


@pytest.mark.parametrize("protocol", ["all", *PROTOCOLS])
def test_an_empty_folder_and_a_file_are_refused(tmp_path: Path, protocol: str) -> None:
    with pytest.raises(BadInputError, match=r"usable.*reader.*'cold'"):
        read_places("cold", tmp_path, protocol=protocol)
    (tmp_path / "file").touch()
    with pytest.raises(BadInputError, match="folder"):
        read_places("cold", tmp_path / "file", protocol=protocol)


# The grammar of names.

digits = st.text("0123456789", min_size=1, max_size=9)
signs = st.sampled_from(["", "-", "+"])
mantissas = st.one_of(digits, st.builds("{}.{}".format, digits, digits), st.builds("{}.".format, digits))
mantissas |= st.builds(".{}".format, digits)
exponents = st.builds("{}{}{}".format, st.sampled_from("eE"), signs, st.integers(0, 30))
numbers = st.builds("{}{}{}".format, signs, mantissas, st.just("") | exponents)
times = numbers.filter(lambda text: abs(Fraction(text)) < 9_000_000_000)
suffixes = st.sampled_from(["jpeg", "jpg", "JPG", "Jpeg"])
LETTERS = "t{}_x{}_y{}_a{}.{}"


def read_one_folder(*names: str) -> Places:
    with tempfile.TemporaryDirectory() as folder:
        touch(Path(folder) / "freiburg" / "seq1_cloudy1" / "std_cam", *names)
        return read_places("cold", folder)


@pytest.mark.medium
@given(times, numbers, numbers, numbers, suffixes)
def test_any_signed_number_with_or_without_exponent_is_read_exactly(
    t: str, x: str, y: str, a: str, suffix: str
) -> None:
    assume(max(abs(float(x)), abs(float(y))) <= 1e9)
    places = read_one_folder(LETTERS.format(t, x, y, a, suffix))
    assert places.notes == ()
    assert (places.x[0], places.y[0]) == (float(Decimal(x)), float(Decimal(y)))
    assert places.time[0] == int(Fraction(t) * 10**9)
    turn = complex(np.cos(places.yaw[0]), np.sin(places.yaw[0]))
    # Beyond some 1e6 radians the angle itself is lost in rounding, whatever wraps it.
    if abs(float(a)) < 1e6:
        assert turn == pytest.approx(complex(np.cos(float(a)), np.sin(float(a))), abs=1e-6)
    assert -np.pi < places.yaw[0] <= np.pi


def damaged(name: str) -> st.SearchStrategy[str]:
    """Names one step away from `name`, a valid one, that are valid no longer."""
    stem, _, suffix = name.rpartition(".")
    parts = stem.split("_")
    swapped = [f"{parts[1]}_{parts[0]}_{parts[2]}_{parts[3]}.{suffix}"]
    missing = ["_".join(parts[:i] + parts[i + 1 :]) + f".{suffix}" for i in range(4)]
    letterless = ["_".join([*parts[:i], parts[i][1:], *parts[i + 1 :]]) + f".{suffix}" for i in range(4)]
    empty = ["_".join([*parts[:i], parts[i][0], *parts[i + 1 :]]) + f".{suffix}" for i in range(4)]
    words = ["nan", "inf", "--1", "1e", "1.2.3", "1,5", ".", "0x10", "1_000", "٣", "1 "]
    wordy = [
        "_".join([*parts[:i], parts[i][0] + word, *parts[i + 1 :]]) + f".{suffix}" for i in range(4) for word in words
    ]
    around = [
        f"x{name}",
        f" {name}",
        f"{name} ",
        f"{name}\n",
        f"{name}.bak",
        f"{stem}_b1.{suffix}",
        f"{stem}.png",
        stem,
    ]
    near = swapped + missing + letterless + empty + wordy + around
    return st.sampled_from([one for one in near if not one.startswith(".")])  # hidden files are passed over


@pytest.mark.medium
@given(st.builds(LETTERS.format, times, numbers, numbers, numbers, suffixes).flatmap(damaged))
def test_names_that_nearly_match_are_listed_and_not_read(name: str) -> None:
    places = read_one_folder(NAME, name)
    assert places.place_id.tolist() == [f"freiburg-a/seq1_cloudy1/{NAME.removesuffix('.jpeg')}"]
    assert note(places, "not named").items == (f"freiburg/seq1_cloudy1/std_cam/{name}",)


# The protocols.

FREIBURG_A = [f"seq{path}_{kind}{run}" for path in (1, 2) for kind in ("cloudy", "night", "sunny") for run in (1, 2, 3)]


def uses(places: Places) -> dict[str, tuple[str, str]]:
    columns = zip(places.sequence, places.split, places.role, strict=True)
    return {sequence: (split, role) for sequence, split, role in columns}


def test_the_paper_trains_on_runs_1_2_4_of_freiburg_a_and_tests_on_runs_3(tmp_path: Path) -> None:
    sequences(tmp_path, "freiburg", *FREIBURG_A, "seq1_sunny4", "seq2_sunny5", "seq3_cloudy3")
    touch(tmp_path / "freiburg" / "seq1_sunny4" / "std_cam", "t1_x0_y0_a0.jpeg")
    sequences(tmp_path, "saarbruecken", "seq1_cloudy3")
    places = read_places("cold", tmp_path, protocol="paper")
    expected = {f"freiburg-a/{name}": ("test" if name.endswith("3") else "train", "") for name in FREIBURG_A}
    assert uses(places) == expected | {"freiburg-a/seq1_sunny4": ("train", "")}
    counts = note(places, "paper:")
    assert str(counts) == "train 14 images (paper: 29,237); test 6 images (paper: 12,831)"
    assert not counts.warning
    others = note(places, "not in protocol paper")
    assert others.items == ("freiburg-a/seq2_sunny5", "freiburg-b/seq3_cloudy3", "saarbruecken-a/seq1_cloudy3")
    assert not others.warning
    assert [one for one in places.notes if one.warning] == []


def test_sequences_that_the_paper_used_and_that_are_missing_are_named(tmp_path: Path) -> None:
    sequences(tmp_path, "freiburg", *(set(FREIBURG_A) - {"seq1_night2", "seq2_sunny3"}))
    missing = note(read_places("cold", tmp_path, protocol="paper"), "missing")
    assert missing.items == ("freiburg-a/seq1_night2", "freiburg-a/seq2_sunny3")
    assert missing.warning


@pytest.mark.parametrize(
    ("lab", "part", "present", "reference", "queries"),
    [
        ("freiburg", "a", FREIBURG_A, "seq2_sunny2", ["seq2_cloudy3", "seq2_night3", "seq2_sunny3"]),
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
            [f"seq{path}_{kind}{run}" for path in (3, 4) for kind in ("cloudy", "night", "sunny") for run in (1, 2)],
            "seq4_cloudy1",
            ["seq4_cloudy2", "seq4_night2", "seq4_sunny2"],
        ),
    ],
)
def test_generalization_has_one_reference_and_the_papers_queries(
    tmp_path: Path, lab: str, part: str, present: list[str], reference: str, queries: list[str]
) -> None:
    sequences(tmp_path, lab, *present)
    places = read_places("cold", tmp_path, protocol=f"generalisation-{lab}-{part}")
    expected = {f"{lab}-{part}/{query}": ("test", "query") for query in queries}
    assert uses(places) == expected | {f"{lab}-{part}/{reference}": ("test", "reference")}
    assert [one for one in places.notes if one.warning] == []


def test_the_first_sunny_run_of_freiburg_b_stands_in_for_the_second_with_a_warning(tmp_path: Path) -> None:
    sequences(tmp_path, "freiburg", "sq3_cloudy1", "seq3_cloudy2", "seq3_sunny1")
    places = read_places("cold", tmp_path, protocol="generalisation-freiburg-b")
    assert uses(places)["freiburg-b/seq3_sunny1"] == ("test", "query")
    assert uses(places)["freiburg-b/seq3_cloudy1"] == ("test", "reference")
    assert note(places, "are missing").items == ("freiburg-b/seq3_sunny2",)
    assert note(places, "replace missing").items == ("freiburg-b/seq3_sunny1",)


def test_the_standard_path_of_saarbruecken_b_stands_in_for_the_extended_one_with_a_warning(tmp_path: Path) -> None:
    sequences(tmp_path, "saarbruecken", "seq3_cloudy1", "seq3_cloudy2", "seq3_night2")
    places = read_places("cold", tmp_path, protocol="generalisation-saarbruecken-b")
    frame = "saarbruecken-b"
    assert uses(places) == {
        f"{frame}/seq3_cloudy1": ("test", "reference"),
        f"{frame}/seq3_cloudy2": ("test", "query"),
        f"{frame}/seq3_night2": ("test", "query"),
    }
    assert set(note(places, "are missing").items) == {
        *(f"{frame}/seq4_{run}" for run in ("cloudy1", "cloudy2", "night2", "sunny2")),
        f"{frame}/seq3_sunny2",
    }
    assert note(places, "replace missing").items == tuple(
        f"{frame}/seq3_{run}" for run in ("cloudy1", "cloudy2", "night2")
    )


def test_sequences_without_their_reference_give_way_to_those_that_have_it(tmp_path: Path) -> None:
    sequences(tmp_path, "saarbruecken", "seq4_cloudy2", "seq4_night2", "seq4_sunny2", "seq3_cloudy1", "seq3_cloudy2")
    places = read_places("cold", tmp_path, protocol="generalisation-saarbruecken-b")
    assert set(places.sequence) == {"saarbruecken-b/seq3_cloudy1", "saarbruecken-b/seq3_cloudy2"}


def test_a_missing_reference_is_named(tmp_path: Path) -> None:
    sequences(tmp_path, "freiburg", "seq2_sunny3", "seq2_cloudy3", "seq2_night3")
    places = read_places("cold", tmp_path, protocol="generalisation-freiburg-a")
    assert set(places.role) == {"query"}
    assert note(places, "are missing").items == ("freiburg-a/seq2_sunny2",)
