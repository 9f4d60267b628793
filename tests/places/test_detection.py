"""What readers are proposed for a folder."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mappable.cli.app import app
from mappable.errors import BadInputError
from mappable.places.detection import LAYOUTS, propose
from mappable.places.readers import reader_names

DATA = Path(__file__).parent / "readers/data"


def readers(root: Path) -> list[str]:
    return [one.reader for one in propose(root)]


def test_every_reader_can_be_proposed() -> None:
    assert LAYOUTS.keys() | {"manifest", "video", "photos"} == set(reader_names())


@pytest.mark.parametrize(
    ("path", "reader"),
    [
        ("drive.mcap", "rosbag"),
        ("drive/metadata.yaml", "rosbag"),
        ("transforms.json", "transforms"),
        ("MH_01/mav0/cam0/data.csv", "euroc"),
        ("boreas-2021-01-26-11-22/camera/1.png", "boreas"),
        ("groundtruth_2012-01-08.csv", "nclt"),
        ("recording_2020-03-24_17-36-22/GNSSPoses.txt", "four_seasons"),
        ("2011_09_26/2011_09_26_drive_0001_sync/oxts/data/0.txt", "kitti"),
        ("dataset/sequences/00/image_2/000000.png", "kitti"),
        ("2014-12-02-15-30-08/stereo/centre/1.png", "robotcar"),
        ("freiburg/seq1_cloudy1/std_cam/a.jpeg", "cold"),
        ("chess/seq-01/frame-000000.pose.txt", "matrices"),
        ("room/groundtruth.txt", "tum"),
        ("images/test/queries/@1@2@3@.jpg", "utm_names"),
        ("walk.MP4", "video"),
    ],
)
def test_a_layout_is_recognized(tmp_path: Path, path: str, reader: str) -> None:
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path).write_text("")
    assert readers(tmp_path) == [reader]


def test_models_and_tables_are_recognized(tmp_path: Path, geotagged: Callable[..., list[Path]]) -> None:
    shutil.copytree(DATA / "colmap/binary", tmp_path / "a/sparse/0")
    shutil.copytree(DATA / "kapture", tmp_path / "b")
    assert readers(tmp_path / "a") == ["colmap"]
    assert readers(tmp_path / "b") == ["kapture"]
    for number, (header, expected) in enumerate((("filename;Latitude;Longitude", True), ("a,b,c", False))):
        (tmp_path / f"c{number}").mkdir()
        (tmp_path / f"c{number}/list.csv").write_text(f"{header}\n")
        if expected:
            assert readers(tmp_path / f"c{number}") == readers(tmp_path / f"c{number}/list.csv") == ["manifest"]
        else:
            with pytest.raises(BadInputError, match="no reader fits"):
                propose(tmp_path / f"c{number}")
    for words, reader in ((12, "kitti"), (16, "matrices"), (17, "matrices")):
        (tmp_path / f"d{words}").mkdir()
        (tmp_path / f"d{words}/poses.txt").write_text("0 " * words + "\n")
        assert readers(tmp_path / f"d{words}") == [reader]
    geotagged(tmp_path / "walks/monday", 2)
    assert readers(tmp_path / "walks") == ["photos"]


def test_several_readers_are_all_listed_and_nothing_is_converted(tmp_path: Path) -> None:
    (tmp_path / "drive.bag").touch()
    (tmp_path / "drive.mp4").touch()
    shown = CliRunner().invoke(app, ["convert", "auto", str(tmp_path), "my places"])
    assert shown.exit_code == 0, shown.output
    assert f"mappable convert rosbag {tmp_path} 'my places'   # first look at the topics with --list" in shown.output
    assert f"mappable convert video {tmp_path} 'my places'" in shown.output
    assert "2 readers fit" in shown.output
    assert not (tmp_path / "my places").exists()


def test_a_folder_that_no_reader_knows(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"no reader fits.*path, x and y"):
        propose(tmp_path)
    with pytest.raises(BadInputError, match="no such file"):
        propose(tmp_path / "missing")
