"""`mappable locate`, `mappable densify` and `mappable recover --images`: images and a map to positions."""

import csv
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from PIL import Image
from scipy.spatial.transform import Rotation
from typer.testing import Result

from bag_writer import BagWriter
from mappable.cli.locate import _print_reasons
from mappable.errors import BadImageError
from mappable.features.encoder import Encoder
from mappable.localization.map import open_map
from mappable.maps.landmarks import Landmarks
from mappable.places import load_places, pack_images, save_places
from mappable.places.frames import Frame
from refusals import refused

Run = Callable[..., Result]


def errors(wall: Path, entries: list[dict[str, object]]) -> list[float]:
    """Errors of the images of the drive `fog`, in metres."""
    true = {Path(path).name: at for path, at in zip(*_truth(wall), strict=True)}
    return [
        float(np.linalg.norm(np.subtract(one["coordinates"], true[Path(str(one["image"])).name]))) for one in entries
    ]


def _truth(wall: Path) -> tuple[list[str], list[list[float]]]:
    fog = load_places(wall).where(sequence="fog")
    return fog.path.tolist(), fog.positions.tolist()


def test_images_are_located(mappable: Run, wall: Path, wall_map: Path) -> None:
    files = sorted((wall / "fog").iterdir())
    result = mappable("locate", wall_map, *files[:3])
    assert result.exit_code == 0, result.output
    for text in (
        "image",
        "distance to landmark (m)",
        "90 % interval",
        str(files[2]),
        "confident for ",
        "of 3 images; frame wall (m)",
    ):
        assert text in result.stdout
    assert result.stderr == ""
    told = mappable("locate", wall_map, wall / "fog", "--json")
    entries = json.loads(told.stdout)
    assert [one["image"] for one in entries] == [str(file) for file in files]
    assert np.median(errors(wall, entries)) < 2
    assert sum(one["confident"] for one in entries) > 90
    assert all(one["unit"] == "m" and one["error"] is None for one in entries)
    assert all(one["low"] <= one["high"] for one in entries if one["confident"] or one["low"] is not None)
    narrow = json.loads(mappable("locate", wall_map, files[0], "--json", "--coverage", 0.3).stdout)
    assert narrow[0]["high"] - narrow[0]["low"] < entries[0]["high"] - entries[0]["low"]


def test_a_georeferenced_map_gives_latitude_and_longitude(
    mappable: Run, wall: Path, wall_map: Path, wall_encoder: Path, tmp_path: Path
) -> None:
    plain = json.loads(mappable("locate", wall_map, wall / "fog/00020.png", "--json").stdout)[0]
    assert (plain["latitude"], plain["longitude"]) == (None, None)
    assert "latitude" not in mappable("locate", wall_map, wall / "fog/00020.png").stdout
    frame = Frame("wall", crs="EPSG:32630", origin=(620_000.0, 5_735_000.0, 0.0))
    save_places(load_places(wall).where(split="train").replace(frames=frame), tmp_path / "train.parquet")
    build = mappable("map", "build", tmp_path / "train.parquet", tmp_path / "map", "--encoder", wall_encoder)
    assert build.exit_code == 0, build.output
    (tmp_path / "bad.jpg").write_text("no image")
    asked = ["locate", tmp_path / "map", tmp_path / "bad.jpg", wall / "fog/00020.png"]
    entry = json.loads(mappable(*asked, "--json", "--out", tmp_path / "out.csv").stdout)[1]
    latitude, longitude = frame.to_latlon(np.array([entry["coordinates"]]))
    assert (entry["latitude"], entry["longitude"]) == (latitude[0], longitude[0])
    row = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))[1]
    assert (float(row["latitude"]), float(row["longitude"])) == (latitude[0], longitude[0])
    shown = mappable(*asked).stdout
    assert " ".join(shown.split()).startswith("image x y latitude longitude distance to landmark (m)")
    assert f" {latitude[0]:.6f}   {longitude[0]:.6f} " in shown


@pytest.mark.medium
def test_python_gives_what_the_command_gives(
    mappable: Run, wall: Path, wall_map: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the first code block of the README and of the quick start."""
    for name, source in (("drive", wall / "fog"), ("map", wall_map)):
        (tmp_path / name).symlink_to(source)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for page, photo in (("README.md", "new.jpg"), ("docs/quick-start.md", "photo.jpg")):
        Image.open(wall / "fog/00020.png").save(tmp_path / photo, quality=95)
        text = (Path(__file__).parent.parent.parent / page).read_text()
        exec(re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)[0], names)
        assert [asdict(names["found"])] == pythonic(mappable("locate", "map", photo, "--json").stdout)
    drive = pythonic(mappable("locate", "map", "drive", "--json", "--sequence").stdout)
    assert asdict(names["one"]) == drive[-1]
    assert isinstance(names["town"].locate_all(str(wall)), list)  # a converted folder


def pythonic(text: str) -> list[dict[str, Any]]:
    """JSON with tuples instead of lists, like the fields of a `Location`."""

    def tuples(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: tuples(one) for name, one in value.items()}
        return tuple(map(tuples, value)) if isinstance(value, list) else value

    return list(tuples(json.loads(text)))


@pytest.mark.medium
def test_a_drive_is_located_together(mappable: Run, wall: Path, wall_map: Path) -> None:
    single = json.loads(mappable("locate", wall_map, wall / "fog", "--json").stdout)
    entries = json.loads(mappable("locate", wall_map, wall / "fog", "--json", "--sequence").stdout)
    assert max(errors(wall, entries)) < 10
    assert single != entries
    both = ["locate", wall_map, wall / "fog", wall / "rain", "--json", "--sequence"]
    assert json.loads(mappable(*both).stdout)[: len(entries)] == entries  # each folder is a drive of its own


@pytest.mark.medium
def test_a_converted_set_is_located_from_packed_pixels(
    mappable: Run, wall: Path, wall_map: Path, tmp_path: Path
) -> None:
    fog = load_places(wall).where(sequence="fog")
    save_places(fog, tmp_path / "fog/places.parquet")
    from_files = mappable("locate", wall_map, tmp_path / "fog/places.parquet", "--json")
    entries = json.loads(from_files.stdout)
    assert [one["image"] for one in entries] == fog.place_id.tolist()
    pack_images(fog, tmp_path / "fog", size=(64, 48))
    assert json.loads(mappable("locate", wall_map, tmp_path / "fog", "--json").stdout) == entries
    more = mappable("locate", wall_map, tmp_path / "fog", wall / "rain/00005.png", "--json")
    assert len(json.loads(more.stdout)) == len(fog) + 1


def test_an_image_that_does_not_decode_does_not_stop_the_others(
    mappable: Run, wall: Path, wall_map: Path, tmp_path: Path
) -> None:
    shutil.copy(wall / "fog/00020.png", tmp_path / "good.png")
    (tmp_path / "bad.jpg").write_text("no image")
    paths = [tmp_path / name for name in ("bad.jpg", "good.png", "gone.png")]
    result = mappable("locate", wall_map, *paths, "--json", "--out", tmp_path / "out.csv")
    assert result.exit_code == 3
    bad, good, gone = json.loads(result.stdout)
    assert "not an image in a known format" in bad["error"]
    assert "no such file" in gone["error"]
    assert errors(wall, [good | {"image": "00020.png"}])[0] < 5
    assert [line.partition(":")[0] for line in result.stderr.splitlines()[1:]] == ["error", "error"]
    assert f"{tmp_path}/bad.jpg: not an image" in result.stderr
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    assert [bool(row["error"]) for row in rows] == [True, False, True]
    assert float(rows[1]["x"]) == good["coordinates"][0]
    shown = mappable("locate", wall_map, *paths)
    assert shown.exit_code == 3
    assert "not an image in a known format" in shown.stdout
    nothing = mappable("locate", wall_map, paths[0], "--sequence")
    assert nothing.exit_code == 3
    assert "confident for 0 of 1 images" in nothing.stdout


@pytest.mark.medium
def test_trajectories_and_pairs_for_others(mappable: Run, wall: Path, wall_map: Path, tmp_path: Path) -> None:
    tum, pairs = tmp_path / "out/fog.tum", tmp_path / "out/fog.pairs"
    places = load_places(wall).where(sequence="fog")
    save_places(places, tmp_path / "fog.parquet")
    exported = [tmp_path / "out/fog.kapture", tmp_path / "out/fog.colmap"]
    result = mappable(
        *("locate", wall_map, tmp_path / "fog.parquet", "--json"),
        *(word for file in (tum, pairs, *exported) for word in ("--out", file)),
    )
    entries = json.loads(result.stdout)
    confident = [row for row, one in enumerate(entries) if one["confident"]]
    for file in (tum, *exported):
        assert f"{len(confident)} of 119 positions written to {file}" in result.stderr
    np.testing.assert_allclose(
        [[float(number) for number in line.split()[1:3]] for line in exported[1].read_text().splitlines()],
        [entries[row]["coordinates"] for row in confident],
        atol=1e-6,
    )
    lines = np.loadtxt(tum)
    np.testing.assert_allclose(lines[:, 0], places.time[confident] / 1e9)
    np.testing.assert_allclose(lines[0, 1:], [*entries[confident[0]]["coordinates"], 0, 0, 0, 0, 1], atol=1e-6)
    listed = [line.split() for line in pairs.read_text().splitlines()]
    assert len(listed) == 5 * 119
    assert listed[0] == ["fog/00020.png", entries[0]["candidates"][0]["landmark"]]
    mappable("locate", wall_map, wall / "fog", "--out", tum, "--overwrite")  # whose files know no time
    np.testing.assert_array_equal(np.loadtxt(tum)[:, 0] % 1, 0)
    Image.new("RGB", (64, 48), (9, 9, 9)).save(tmp_path / "dark.png")
    none = mappable("locate", wall_map, tmp_path / "dark.png", "--out", tum, "--overwrite")
    assert f"0 of 1 positions written to {tum}" in none.stderr
    assert not tum.read_text().strip()


def test_files_that_cannot_be_written_are_refused_before_any_image_is_described(
    mappable: Run, wall: Path, wall_map: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Encoder, "embed", lambda *_, **__: pytest.fail("images were described"))
    monkeypatch.chdir(tmp_path)
    shutil.copy(wall / "fog/00020.png", tmp_path / "a b.png")
    locate = ["locate", wall_map]
    refused(mappable(*locate, wall / "fog", "--out", "a.csv", "--out", tmp_path / "a.csv"), "the same file twice")
    refused(
        mappable(*locate, wall / "fog", wall / "rain", "--out", "out.tum"), "2 sequences, such", "'fog'", "one drive"
    )
    refused(mappable(*locate, wall / "fog", "--out", "out.gpx"), "out.gpx", ".geojson")
    refused(mappable(*locate, "a b.png", "--out", "out.colmap"), "out.colmap", "a space")
    assert [file.name for file in tmp_path.iterdir()] == ["a b.png"]


def test_the_folder_of_start_is_accepted_for_its_map(mappable: Run, wall: Path, wall_map: Path, tmp_path: Path) -> None:
    shutil.copytree(wall_map, tmp_path / "started/map")
    image = wall / "fog/00020.png"
    located = mappable("locate", tmp_path / "started", image, "--json")
    assert json.loads(located.stdout) == json.loads(mappable("locate", wall_map, image, "--json").stdout)
    assert len(open_map(tmp_path / "started")) == 60


def test_what_cannot_be_located_is_refused_in_a_sentence(
    mappable: Run, wall: Path, wall_map: Path, wall_encoder: Path, other_encoder: Path, tmp_path: Path
) -> None:
    image = wall / "fog/00020.png"
    assert mappable("locate", wall_map, image, "--encoder", wall_encoder).exit_code == 0
    refused(mappable("locate", wall_map, image, "--encoder", other_encoder), "but the map needs encoder")
    refused(mappable("locate", wall_map, tmp_path), "the folder has no images")
    refused(mappable("locate", wall, image), "no map here", "give a folder that `mappable map build` wrote")
    refused(mappable("locate", wall_map, image, "--coverage", 2), "coverage")
    refused(mappable("locate", wall_map, image, "--out", tmp_path), "cannot be written")
    save_places(load_places(wall)[:0], tmp_path / "none.parquet")
    for command in (("locate", wall_map), ("densify", wall_map)):
        refused(mappable(*command, tmp_path / "none.parquet"), "none.parquet: the table has no images")
    assert mappable("locate", wall_map).exit_code == 2  # nothing is asked about


def test_reasons_are_short_in_the_table_and_sentences_below_it(capsys: pytest.CaptureFixture[str]) -> None:
    reasons = ["looks like two places: a, and nearly as much b"] * 5 + ["looks unlike every landmark: very"]
    _print_reasons([cast(Any, SimpleNamespace(image=f"{n}.jpg", reason=text)) for n, text in enumerate(reasons)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "looks like two places: 0.jpg: a, and nearly as much b"
    assert lines[3] == "looks like two places: 2 more images; --json has the reason of each"
    assert lines[4:] == ["looks unlike every landmark: 5.jpg: very"]


# Denser maps


@pytest.mark.medium
def test_images_without_positions_become_landmarks(
    mappable: Run, wall: Path, wall_map: Path, copied_map: Path, tmp_path: Path
) -> None:
    (tmp_path / "drive").mkdir()
    for file in (wall / "fog").iterdir():
        shutil.copy(file, tmp_path / "drive")
    again = shutil.copytree(copied_map, tmp_path / "again")
    dense = mappable("densify", copied_map, tmp_path / "drive", "--sequence")
    assert dense.exit_code == 0, dense.output
    grown = Landmarks.open(copied_map)
    added = int(grown.estimated.sum())
    assert added > 20
    assert f"{added} of 119 images added" in dense.stdout
    assert f"{60 + added} landmarks, {added} of them at estimated positions" in dense.stdout
    assert dense.stderr.startswith("warning: some added images are outside ")
    assert dense.stderr.count("\n") == 1
    assert all(file.is_file() for file in grown.places.files)
    assert grown.places.place_id[:60].tolist() == Landmarks.open(wall_map).places.place_id.tolist()
    assert grown.places.notes == ()
    np.testing.assert_array_equal(grown.places.positions[:60], Landmarks.open(wall_map).places.positions)
    assert f"({added} at estimated positions)" in mappable("map", "show", copied_map).stdout

    (tmp_path / "drive/bad.png").write_text("no image")
    some = mappable("densify", again, tmp_path / "drive", "--within", 2)
    assert some.exit_code == 3
    assert "bad.png: not an image" in some.stderr
    assert len(Landmarks.open(again)) > 60
    refused(mappable("densify", again, tmp_path / "drive"), "already has a landmark", "00020.png")


@pytest.mark.medium
def test_nothing_that_can_be_added(mappable: Run, wall: Path, copied_map: Path, tmp_path: Path) -> None:
    before = (copied_map / "map.json").read_bytes()
    none = mappable("densify", copied_map, wall / "fog", "--within", 1e-6)
    assert none.exit_code == 0
    assert "0 of 119 images added" in none.stdout
    assert "position not known well enough" in none.stdout
    (tmp_path / "bad.jpg").write_text("no image")
    assert mappable("densify", copied_map, tmp_path / "bad.jpg").exit_code == 3
    refused(mappable("densify", copied_map, wall / "fog", wall / "rain", "--sequence"), "2 sequences, such as 'fog'")
    refused(mappable("densify", copied_map, wall / "fog", "--within", 0), "above 0")
    assert (copied_map / "map.json").read_bytes() == before


# Recovery


@pytest.mark.medium
def test_positions_are_recovered_from_images(mappable: Run, wall: Path, wall_map: Path, tmp_path: Path) -> None:
    rain = load_places(wall).where(sequence="rain")
    save_places(rain, tmp_path / "rain.parquet")
    arguments = ["recover", "images", wall_map, tmp_path / "rain.parquet", tmp_path / "out", "--overwrite"]
    result = mappable(*arguments)
    assert result.exit_code == 0, result.output
    assert "160 points in 2 dimensions" in result.stdout
    assert "scored" not in result.stdout  # the positions in the table do not count
    summary = json.loads((tmp_path / "out/summary.json").read_text())
    assert summary["images"] == rain.place_id.tolist()
    np.testing.assert_allclose(np.loadtxt(tmp_path / "out/trajectory.txt")[:, 0], rain.time / 1e9)
    known = "\n".join(f"{row},{rain.x[row]},{rain.y[row]}" for row in range(0, 160, 20))
    (tmp_path / "known.csv").write_text(f"point,x,y\n{known}\n")
    scored = mappable(*arguments, "--truth", tmp_path / "rain.parquet", "--anchors", tmp_path / "known.csv")
    assert "160 points scored" in scored.stdout, scored.output
    near = mappable("recover", "images", wall_map, wall / "rain", tmp_path / "near", "--radius", 6)
    assert near.exit_code == 0, near.output
    refused(mappable(*arguments, "--truth", wall), "has 359 places", "160 points")


@pytest.mark.medium
def test_images_are_recovered_with_odometry_of_a_table_or_a_bag(
    mappable: Run, wall: Path, wall_map: Path, tmp_path: Path
) -> None:
    rain = load_places(wall).where(sequence="rain")
    save_places(rain, tmp_path / "rain.parquet")
    poses = [(float(-y), float(x)) for x, y in rain.positions - rain.positions[0]]  # a frame of its own
    bag, rows = BagWriter("mcap"), ["time,x,y,yaw"]
    for row, (time, (x, y)) in enumerate(zip(rain.time.tolist(), poses, strict=True)):
        if not 60 <= row < 90:  # the odometry paused
            rows.append(f"{time / 1e9:.9f},{x},{y},{np.pi / 2}")
            bag.add_odometry("/odom", time, (x, y, 0), Rotation.from_euler("z", np.pi / 2).as_quat())
    (tmp_path / "table.csv").write_text("\n".join(rows) + "\n")
    known = "\n".join(f"{row},{rain.x[row]},{rain.y[row]}" for row in (0, 55, 95, 159))  # both sides of the pause
    (tmp_path / "known.csv").write_text(f"point,x,y\n{known}\n")
    maps = []
    for odometry in (tmp_path / "table.csv", bag.write(tmp_path, "bag")):
        arguments = ["recover", "images", wall_map, tmp_path / "rain.parquet", tmp_path / "out", "--overwrite"]
        result = mappable(*arguments, "--odometry", odometry, "--anchors", tmp_path / "known.csv")
        assert result.exit_code == 0, result.output
        assert "steps were assumed" in result.stdout  # where the odometry paused
        maps.append(np.loadtxt(tmp_path / "out/trajectory.txt"))
        assert np.abs(maps[-1][:, 1:3] - rain.positions).max() < 5.0
    np.testing.assert_allclose(maps[0], maps[1], atol=1e-3)
    refused(mappable(*arguments, "--odometry", odometry, "--odometry-topic", "/no"), "/no")


def test_what_cannot_be_recovered_from(
    mappable: Run, wall: Path, wall_map: Path, other_encoder: Path, tmp_path: Path
) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad/bad.jpg").write_text("no image")
    recover = ["recover", "images", wall_map]
    assert isinstance(mappable(*recover, tmp_path / "bad", tmp_path / "out").exception, BadImageError)
    refused(mappable(*recover, wall / "fog", tmp_path / "out", "--encoder", other_encoder), "but the map needs encoder")
    refused(mappable(*recover, wall / "fog/00020.png", tmp_path / "out"), "at least two images")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", ["map build", "map add", "locate", "densify", "recover images"])
def test_each_option_is_explained(mappable: Run, command: str) -> None:
    text = mappable(*command.split(), "--help").stdout
    assert "--device" in text
    assert "--encoder" in text
