"""`mappable recover`: from distances or images to positions, and one sentence for each mistake."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import Result

from mappable.arrays import Floats
from mappable.places import load_places, save_places
from mappable.recovery.ranges import Ranges
from refusals import refused
from simulated_ranges import NOISES, measure, route

pytestmark = pytest.mark.medium
Run = Callable[..., Result]
TRUTH = route("loop", 150, seed=2, length=300.0)


def save(ranges: Ranges, file: Path) -> Path:
    rows = zip(ranges.i, ranges.j, ranges.metres, ranges.sigma, strict=True)
    return written(file, "i,j,metres,sigma", [",".join(map(str, row)) for row in rows])


def positions_file(file: Path, positions: Floats, points: Any = None) -> Path:
    points = np.arange(len(positions)) if points is None else points
    rows = [
        ",".join(map(str, (point, *row)))
        for point, row in zip(points, positions.tolist(), strict=True)
    ]
    return written(file, f"point,{'x,y,z'[: 2 * positions.shape[1] - 1]}", rows)


def written(file: Path, head: str, rows: list[str]) -> Path:
    file.write_text("\n".join([head, *rows]) + "\n")
    return file


def summary(out: Path) -> Any:
    return json.loads((out / "summary.json").read_text())


@pytest.fixture
def ranges_file(tmp_path: Path) -> Path:
    return save(measure(TRUTH, NOISES["mid"], seed=0, outliers=0.01), tmp_path / "ranges.csv")


def test_positions_of_a_table_of_ranges(mappable: Run, ranges_file: Path, tmp_path: Path) -> None:
    out, truth = tmp_path / "out", positions_file(tmp_path / "truth.csv", TRUTH)
    result = mappable("recover", ranges_file, out, "--truth", truth)
    assert result.exit_code == 0, result.exception
    for text in (
        "150 points in 2 dimensions",
        "removed as false",
        "undetermined:",
        "mirror image",
        "straight line",
    ):
        assert text in result.stdout
    names = ["positions.csv", "recovery.png", "summary.json", "trajectory.txt"]
    assert sorted(file.name for file in out.iterdir()) == names
    assert (summary(out)["points"], summary(out)["parts"], summary(out)["method"]) == (
        150,
        [150],
        "default",
    )
    scores = summary(out)["scores"]
    assert scores["aligned, scale free"]["of_length"] < scores["point"]["of_length"] / 2
    with Image.open(out / "recovery.png") as picture:
        assert picture.width > 1000
    again = mappable("recover", ranges_file, tmp_path / "again", "--json")
    assert json.loads(again.stdout)["points"] == 150
    assert (tmp_path / "again/positions.csv").read_bytes() == (out / "positions.csv").read_bytes()


@pytest.mark.usefixtures("gtsam")
def test_odometry_makes_a_pose_graph_that_is_read_again(mappable: Run, tmp_path: Path) -> None:
    small = route("loop", 60, seed=2, length=120.0)
    ranges = save(measure(small, NOISES["mid"], seed=0, outliers=0.01), tmp_path / "ranges.csv")
    x, y = np.gradient(small, axis=0).T
    half = np.arctan2(y, x) / 2
    rows = [
        f"{n} {x} {y} 0 0 0 {np.sin(a)} {np.cos(a)}"
        for n, ((x, y), a) in enumerate(zip(small, half, strict=True))
    ]
    (tmp_path / "drive.tum").write_text("\n".join(rows) + "\n")
    truth = positions_file(tmp_path / "truth.csv", small)
    options = ("--odometry", tmp_path / "drive.tum", "--truth", truth)
    result = mappable("recover", ranges, tmp_path / "out", *options)
    assert result.exit_code == 0, result.exception
    assert summary(tmp_path / "out")["scores"]["aligned, scale as measured"]["rmse"] < 1.0
    again = mappable("recover", tmp_path / "out/graph.g2o", tmp_path / "again")
    assert "60 points in 2 dimensions" in again.stdout, again.exception
    (tmp_path / "drive.tum").write_text("\n".join(rows[:30]) + "\n7 1 2")
    refused(mappable("recover", ranges, tmp_path / "no", *options), "drive.tum, row 31")


@pytest.mark.usefixtures("gtsam")
def test_images_are_recovered_with_odometry_and_known_positions(
    mappable: Run, wall: Path, wall_map: Path, tmp_path: Path
) -> None:
    rain = load_places(wall).where(sequence="rain")
    save_places(rain, tmp_path / "rain.parquet")
    images = ("recover", wall_map, tmp_path / "rain.parquet", tmp_path / "out", "--overwrite")
    plain = mappable(*images)
    assert "160 points in 2 dimensions" in plain.stdout, plain.output
    assert summary(tmp_path / "out")["images"] == rain.place_id.tolist()
    assert not summary(tmp_path / "out")["scores"]  # the positions in the table do not count
    np.testing.assert_allclose(np.loadtxt(tmp_path / "out/trajectory.txt")[:, 0], rain.time / 1e9)
    poses = rain.positions - rain.positions[0]
    seconds = rain.time / 1e9
    rows = [
        f"{seconds[n]:.9f},{-poses[n, 1]},{poses[n, 0]},{np.pi / 2}"
        for n in range(160)
        if not 60 <= n < 90
    ]
    # Paused, in a frame of its own.
    odometry = written(tmp_path / "odometry.csv", "time,x,y,yaw", rows)
    at = [0, 55, 95, 159]  # both sides of the pause
    anchors = positions_file(tmp_path / "known.csv", rain.positions[at], at)
    result = mappable(*images, "--odometry", odometry, "--anchors", anchors)
    assert "steps were assumed" in result.stdout, result.output
    assert np.abs(np.loadtxt(tmp_path / "out/trajectory.txt")[:, 1:3] - rain.positions).max() < 5.0
    refused(mappable(*images, "--truth", wall), "has 359 places", "160 points")


@pytest.mark.parametrize(
    ("text", "options", "parts"),
    [
        ("i,j,metres\n0,1,nan\n", "", ("bad.csv, row 2", "'nan'")),
        ("i,j,metres\n", "", ("no ranges",)),
        ("i,j,metres\n0,1,1\n", "", ("at least 3 points",)),
        ("RANGES", "--method magic", ("'magic'", "default")),
        ("RANGES", "--descriptors folder", ("--descriptors", "MAP IMAGES")),
        ("RANGES", "--anchors none.csv", ("none.csv: no such file",)),
        ("RANGES", "--anchors known.csv --method sdp", ("use the default method",)),
    ],
)
def test_mistakes_are_one_sentence(
    mappable: Run,
    tmp_path: Path,
    text: str,
    options: str,
    parts: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    positions_file(Path("known.csv"), TRUTH[:3])
    Path("bad.csv").write_text("i,j,metres\n0,1,1\n1,2,1\n0,2,1.5\n" if text == "RANGES" else text)
    refused(mappable("recover", "bad.csv", "out", *options.split()), *parts)
    refused(mappable("recover", "bad.csv", "bad.csv/out"), "cannot be written")
    assert not Path("out").exists()


@pytest.mark.usefixtures("gtsam")
def test_hints_beyond_the_points_are_refused(
    mappable: Run, ranges_file: Path, tmp_path: Path
) -> None:
    far = positions_file(tmp_path / "far.csv", TRUTH[:1], [900])
    ways = written(tmp_path / "ways.csv", "i,j,forward,left,turn", ["0,1,2,0,0", "1,900,2,0,0"])
    for option, file, words in (
        ("--anchors", far, "row 2: column 'point'"),
        ("--odometry", ways, "row 3: column 'j'"),
    ):
        refused(
            mappable("recover", ranges_file, tmp_path / "out", option, file),
            f"{file.name}, {words} is '900'",
        )
