"""`mappable recover`: from a file of distances to positions, with one sentence for each mistake."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner, Result

from mappable.arrays import Floats
from mappable.cli.app import app
from mappable.recovery.files import read_truth
from mappable.recovery.ranges import Ranges
from refusals import refused
from simulated_ranges import NOISES, measure, route

TRUTH = route("loop", 150, seed=2, length=300.0)


def run(*arguments: object) -> Result:
    """Run `mappable recover`: with `file`, unless the first word is another subcommand."""
    words = [*map(str, arguments)]
    verb = [] if words[0] in ("file", "--help") else ["file"]
    return CliRunner().invoke(app, ["recover", *verb, *words])


def save(ranges: Ranges, file: Path) -> Path:
    rows = zip(ranges.i, ranges.j, ranges.metres, ranges.sigma, strict=True)
    file.write_text("\n".join(["i,j,metres,sigma", *(",".join(map(str, row)) for row in rows)]))
    return file


def positions_file(file: Path, positions: Floats, points: Any = None) -> Path:
    points = np.arange(len(positions)) if points is None else points
    axes = "x,y,z"[: 2 * positions.shape[1] - 1]
    rows = (",".join(map(str, (point, *row))) for point, row in zip(points, positions.tolist(), strict=True))
    file.write_text("\n".join([f"point,{axes}", *rows]))
    return file


@pytest.fixture
def ranges_file(tmp_path: Path) -> Path:
    return save(measure(TRUTH, NOISES["mid"], seed=0, outliers=0.01), tmp_path / "ranges.csv")


# What comes out


def text_file(file: Path, head: str, rows: list[str]) -> Path:
    file.write_text("\n".join([head, *rows]) + "\n")
    return file


@pytest.mark.medium
def test_positions_are_recovered_and_what_is_undetermined_is_said(ranges_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    truth = positions_file(tmp_path / "truth.csv", TRUTH)
    result = run(ranges_file, out, "--truth", truth, "--figure")
    assert result.exit_code == 0, result.exception
    for text in (
        "150 points in 2 dimensions",
        "1 part",
        "removed as false",
        "times the stated sigma",
        "undetermined:",
        "mirror image",
        "(precision)",
        "aligned, scale free",
        "straight line",
        "circle",
        f"written to {out}",
    ):
        assert text in result.stdout
    assert sorted(file.name for file in out.iterdir()) == [
        "positions.csv",
        "recovery.png",
        "summary.json",
        "trajectory.txt",
    ]
    summary = json.loads((out / "summary.json").read_text())
    assert (summary["points"], summary["parts"], summary["method"]) == (150, [150], "default")
    assert summary["undetermined"]
    assert summary["scores"]["aligned, scale free"]["of_length"] < summary["scores"]["point"]["of_length"] / 2
    assert read_truth(out / "positions.csv", 150).shape == (150, 2)
    assert np.loadtxt(out / "trajectory.txt").shape == (150, 8)
    with Image.open(out / "recovery.png") as picture:
        assert picture.width > 1000


@pytest.mark.medium
def test_with_known_positions_the_map_is_in_their_coordinates(ranges_file: Path, tmp_path: Path) -> None:
    points = np.arange(0, 150, 10)
    anchors = positions_file(tmp_path / "anchors.csv", TRUTH[points] + 100.0, points)
    truth = positions_file(tmp_path / "truth.csv", TRUTH + 100.0)
    result = run(ranges_file, tmp_path / "out", "--anchors", anchors, "--truth", truth)
    assert result.exit_code == 0, result.exception
    assert "15 positions were known" in result.stdout
    assert "interpolated anchors" in result.stdout
    scores = json.loads((tmp_path / "out/summary.json").read_text())["scores"]
    assert scores["in the map's coordinates"]["rmse"] < 2.0
    assert (tmp_path / "out/positions.csv").read_text().startswith("point,part,x,y,xx,xy,yy\n")


@pytest.mark.medium
def test_a_loop_with_odometry_needs_no_known_position_and_goes_out_as_a_graph(tmp_path: Path) -> None:
    small = route("loop", 60, seed=2, length=120.0)
    ranges = save(measure(small, NOISES["mid"], seed=0, outliers=0.01), tmp_path / "ranges.csv")
    x, y = np.gradient(small, axis=0).T
    half = np.arctan2(y, x) / 2
    rows = [f"{n} {x} {y} 0 0 0 {np.sin(a)} {np.cos(a)}" for n, ((x, y), a) in enumerate(zip(small, half, strict=True))]
    (tmp_path / "drive.tum").write_text("\n".join(rows) + "\n")
    truth = positions_file(tmp_path / "truth.csv", small)
    options = ("--odometry", tmp_path / "drive.tum", "--truth", truth, "--graph")
    result = run(ranges, tmp_path / "out", *options)
    assert result.exit_code == 0, result.exception
    summary = json.loads((tmp_path / "out/summary.json").read_text())
    assert summary["scores"]["aligned, scale as measured"]["rmse"] < 1.0
    again = run(tmp_path / "out/graph.g2o", tmp_path / "again")
    assert again.exit_code == 0, again.exception
    assert "60 points in 2 dimensions" in again.stdout
    (tmp_path / "drive.tum").write_text("\n".join(rows[:30]) + "\n7 1 2")
    refused(run(ranges, tmp_path / "no", *options[:2]), "drive.tum, row 31", "3 values, expected 8")
    refused(run(ranges, tmp_path / "no", "--graph"), "--graph writes poses and motions: give --odometry")


@pytest.mark.medium
def test_motions_place_points_without_an_order(ranges_file: Path, tmp_path: Path) -> None:
    steps = np.diff(TRUTH, axis=0)
    headings = np.unwrap(np.arctan2(steps[:, 1], steps[:, 0]))
    turns, metres = np.diff(headings, append=headings[-1]), np.linalg.norm(steps, axis=1)
    rows = [f"{n},{n + 1},{m},0,{a}" for n, (m, a) in enumerate(zip(metres, turns, strict=True))]
    ways = text_file(tmp_path / "ways.csv", "i,j,forward,left,turn", rows)
    truth = positions_file(tmp_path / "truth.csv", TRUTH)
    result = run(ranges_file, tmp_path / "out", "--odometry", ways, "--unordered", "--truth", truth)
    assert result.exit_code == 0, result.exception
    scores = json.loads((tmp_path / "out/summary.json").read_text())["scores"]
    assert scores["aligned, scale as measured"]["rmse"] < 1.0


@pytest.mark.medium
def test_three_dimensions_are_those_of_the_known_positions_or_asked_for(tmp_path: Path) -> None:
    points = np.random.default_rng(0).uniform(0, 15, (60, 3))
    file = save(measure(points, NOISES["low"], seed=0, radius=12.0), tmp_path / "ranges.csv")
    truth = positions_file(tmp_path / "truth.csv", points)
    plain = run(file, tmp_path / "plain", "--dimensions", 3, "--truth", truth)
    assert "60 points in 3 dimensions" in plain.stdout, plain.exception
    assert json.loads((tmp_path / "plain/summary.json").read_text())["scores"]["aligned, scale free"]["rmse"] < 1.0
    anchors = positions_file(tmp_path / "anchors.csv", points[:8], np.arange(8))
    known = run(file, tmp_path / "known", "--anchors", anchors, "--unordered", "--truth", truth)
    assert "60 points in 3 dimensions" in known.stdout, known.exception
    assert json.loads((tmp_path / "known/summary.json").read_text())["scores"]["in the map's coordinates"]["rmse"] < 1.0
    refused(
        run(file, tmp_path / "no", "--anchors", anchors, "--dimensions", 2),
        "anchors.csv: positions have 3 dimensions, expected 2",
    )


def test_a_matrix_of_squared_distances_with_its_scale(tmp_path: Path) -> None:
    apart = np.linalg.norm(TRUTH[:, None] - TRUTH, axis=2)
    np.save(tmp_path / "matrix.npy", np.square(apart) / 50)
    np.save(tmp_path / "mask.npy", apart <= 12)
    by_radius = run(tmp_path / "matrix.npy", tmp_path / "a", "--scale", 50, "--radius", 12)
    by_mask = run(tmp_path / "matrix.npy", tmp_path / "b", "--scale", 50, "--mask", tmp_path / "mask.npy")
    assert by_radius.exit_code == 0, by_radius.exception
    assert by_mask.stdout.replace("/b", "/a") == by_radius.stdout
    assert (tmp_path / "a/positions.csv").read_bytes() == (tmp_path / "b/positions.csv").read_bytes()


def test_other_methods_are_chosen_by_name(ranges_file: Path, tmp_path: Path) -> None:
    assert run(ranges_file, tmp_path / "out", "--method", "geodesic").exit_code == 0
    assert json.loads((tmp_path / "out/summary.json").read_text())["method"] == "geodesic"
    refused(run(ranges_file, tmp_path / "no", "--method", "magic"), "'magic'", "default", "sdp")


def test_parts_that_nothing_connects_are_recovered_apart_and_said(tmp_path: Path) -> None:
    ranges = measure(TRUTH, NOISES["mid"], seed=0)
    apart = ranges.where((ranges.i < 60) == (ranges.j < 60))
    result = run(save(apart, tmp_path / "ranges.csv"), tmp_path / "out")
    assert "2 parts" in result.stdout, result.exception
    assert "Images 0 to 59 are not connected to the rest." in result.stdout
    parts = np.loadtxt(tmp_path / "out/positions.csv", delimiter=",", skiprows=1)[:, 1]
    assert sorted(np.bincount(parts.astype(int)).tolist()) == [60, 90]


def test_the_same_command_gives_the_same_files(ranges_file: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        run(ranges_file, tmp_path / name)
    assert (tmp_path / "a/positions.csv").read_bytes() == (tmp_path / "b/positions.csv").read_bytes()


# What is refused


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("i,j,metres\n0,1,-1\n", ("row 2", "'-1'")),
        ("i,j,metres\n0,1,nan\n", ("row 2", "'nan'")),
        ("i,j,metres\n0,1,1\n", ("at least 3 points", "got 2")),
        ("i,j,metres\n", ("no ranges",)),
    ],
)
def test_bad_ranges_are_one_sentence(tmp_path: Path, text: str, parts: tuple[str, ...]) -> None:
    (tmp_path / "bad.csv").write_text(text)
    refused(run(tmp_path / "bad.csv", tmp_path / "out"), *parts)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("matrix", "options", "part"),
    [
        (np.arange(16.0).reshape(4, 4), (), "differs from its mirror image"),
        (-np.ones((4, 4)), (), "is negative"),
        (np.full((4, 4), np.nan), (), "not a finite number"),
        (np.ones((4, 4)), ("--radius", 0.1), "leave no pair"),
        (np.ones((2, 2)), (), "at least 3 points"),
    ],
)
def test_bad_matrices_are_one_sentence(tmp_path: Path, matrix: Floats, options: tuple[object, ...], part: str) -> None:
    np.save(tmp_path / "bad.npy", matrix)
    refused(run(tmp_path / "bad.npy", tmp_path / "out", *options), part)


def test_mistaken_options_are_one_sentence(ranges_file: Path, tmp_path: Path) -> None:
    out, anchors = tmp_path / "out", positions_file(tmp_path / "anchors.csv", TRUTH[:5])
    refused(run(tmp_path / "no.csv", out), "no.csv: no such file")
    refused(run(ranges_file, ranges_file), "ranges.csv", "not a writable folder")
    refused(run(ranges_file, out, "--scale", 2), "--scale", "matrix in an .npy file")
    refused(run(ranges_file, out, "--anchors", anchors, "--method", "sdp"), "use the default method")
    far = positions_file(tmp_path / "a.csv", TRUTH[:1], [900])
    refused(run(ranges_file, out, "--anchors", far), "a.csv, row 2: column 'point' is '900'", "number of points, 150")
    ways = text_file(tmp_path / "ways.csv", "i,j,forward,left,turn", ["0,1,2,0,0", "1,900,2,0,0"])
    refused(run(ranges_file, out, "--odometry", ways), "ways.csv, row 3: column 'j' is '900'")
    truth = positions_file(tmp_path / "truth.csv", TRUTH)
    refused(
        run(ranges_file, out, "--truth", truth, "--dimensions", 3), "truth.csv: positions have 2 dimensions, expected 3"
    )
    assert not out.exists()


def test_an_output_that_cannot_be_written_is_refused_before_the_work(
    ranges_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mappable.recovery.task.recover", lambda *_, **__: pytest.fail("has begun"))
    refused(run(ranges_file, ranges_file / "out"), "cannot be written", "not a writable folder")


@pytest.mark.medium
@pytest.mark.parametrize("points", [[40], [40, 45]])
def test_few_known_positions_leave_a_mirror_image_and_it_is_said(
    ranges_file: Path, tmp_path: Path, points: list[int]
) -> None:
    anchors = positions_file(tmp_path / "anchors.csv", TRUTH[points], points)
    result = run(ranges_file, tmp_path / "out", "--anchors", anchors)
    assert result.exit_code == 0, result.exception
    assert "undetermined:" in result.stdout


def test_the_semidefinite_program_says_what_to_use_for_many_points(tmp_path: Path) -> None:
    file = save(measure(route("loop", 310, seed=0), NOISES["mid"], seed=0), tmp_path / "ranges.csv")
    refused(run(file, tmp_path / "out", "--method", "sdp"), "300 points", "default")


@pytest.mark.medium
def test_a_mistake_is_printed_without_a_traceback(tmp_path: Path) -> None:
    main = "from mappable.cli import main; main()"
    command = [sys.executable, "-c", main, "recover", "file", tmp_path / "no.csv", tmp_path]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 1
    assert result.stderr == f"error: {tmp_path / 'no.csv'}: no such file\n"


def test_help_names_both_ways() -> None:
    assert "images" in run("--help").stdout
    assert "--anchors" in run("file", "--help").stdout
    assert "point,x,y[,z]" in "".join(run("file", "--help").stdout.split("│")).replace(" ", "").replace("\n", "")
