"""The reader of 4Seasons, on trees written as its description and its authors' tools say."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyproj import Geod, Transformer
from scipy.spatial.transform import Rotation

from mappable.errors import BadInputError
from mappable.places.readers import read_places

START = 1_585_067_782_000_000_000
LATITUDE, LONGITUDE = 48.25, 11.64
EAST_NORTH_UP = np.array(  # columns of the three directions, in coordinates of the Earth
    [
        [-np.sin(np.deg2rad(LONGITUDE)), np.cos(np.deg2rad(LONGITUDE)), 0],
        -np.sin(np.deg2rad(LATITUDE)) * np.array([np.cos(np.deg2rad(LONGITUDE)), np.sin(np.deg2rad(LONGITUDE)), 0])
        + np.array([0, 0, np.cos(np.deg2rad(LATITUDE))]),
        np.cos(np.deg2rad(LATITUDE)) * np.array([np.cos(np.deg2rad(LONGITUDE)), np.sin(np.deg2rad(LONGITUDE)), 0])
        + np.array([0, 0, np.sin(np.deg2rad(LATITUDE))]),
    ]
).T
NORTHWARD = np.array([[1, 0, 0], [0, 0, 1], [0, -1, 0]])  # a level camera that looks north, in east, north, up
AT = np.array([(3.0 * number, 7.0 * number, 0.0) for number in range(5)])  # east, north, up of keyframes


def line(turn: Rotation, shift: Any) -> str:
    return ",".join(repr(float(value)) for value in (*shift, *turn.as_quat()))


def write(root: Path, scale: float = 1.25, name: str = "recording_2020-03-24_17-36-22", start: int = START) -> Path:
    """A recording, made backwards: from places on the Earth to what the files say."""
    slam = Rotation.from_euler("xyz", (0.3, -0.2, 0.9)), np.array([1.0, 2.0, 3.0])
    gnss = Rotation.from_euler("xyz", (-0.1, 0.4, 1.3)), np.array([10.0, -20.0, 5.0])
    origin = Transformer.from_crs("EPSG:4979", "EPSG:4978", always_xy=True).transform(LONGITUDE, LATITUDE, 500.0)
    earth = Rotation.from_matrix(EAST_NORTH_UP), np.array(origin)
    other = Rotation.identity(), np.zeros(3)
    folder = root / name
    (folder / "undistorted_images/cam0").mkdir(parents=True)
    named = zip(("S_AS", "cam_imu", "w_gpsw", "gps_imu", "e_gpsw"), (slam, other, gnss, other, earth), strict=True)
    (folder / "Transformations.txt").write_text(
        "\n\n".join(f"# {name}\n{line(*transform)}" for name, transform in named) + f"\n\n# GNSS scale\n{scale}\n"
    )
    rows = ["# frame_id, translation, rotation, scale, fusion_quality, v3"]
    for number, at in enumerate(AT):
        world = (gnss[0].apply(at) + gnss[1]) / scale
        turn = slam[0].inv() * gnss[0] * Rotation.from_matrix(NORTHWARD)
        rows.append(f"{start + number},{line(turn, slam[0].inv().apply(world - slam[1]))},{scale},2,0")
    (folder / "GNSSPoses.txt").write_text("\n".join(rows) + "\n")
    for number in range(7):  # two without a pose
        (folder / f"undistorted_images/cam0/{start + number}.png").touch()
    return folder


def test_keyframes_are_where_they_were_on_the_earth(tmp_path: Path) -> None:
    write(tmp_path)
    write(tmp_path, scale=0.8, name="recording_2021-01-07_12-04-03", start=START + 10**15)
    places = read_places("four_seasons", tmp_path)
    assert len(places) == 10
    latitude, longitude = places.frames[places.frame[0]].to_latlon(places.positions)
    geod = Geod(ellps="WGS84")
    expected = [
        geod.fwd(LONGITUDE, LATITUDE, np.rad2deg(np.arctan2(e, n)), np.hypot(e, n))[:2] for e, n, _ in (*AT, *AT)
    ]
    _, _, off = geod.inv(longitude, latitude, *np.array(expected).T)
    assert np.max(off) < 5e-3  # heights of 500 m lengthen ways by 8e-5
    np.testing.assert_allclose(places.z, 500, atol=1e-3)
    convergence = np.deg2rad((LONGITUDE - 9) * np.sin(np.deg2rad(LATITUDE)))  # grid north and north differ
    np.testing.assert_allclose(places.yaw, np.pi / 2 + convergence, atol=1e-3)
    assert places.time[0] == START
    assert [note.items for note in places.notes] == [
        ("recording_2020-03-24_17-36-22: 2 of 7", "recording_2021-01-07_12-04-03: 2 of 7")
    ]
    np.testing.assert_array_equal(read_places("four_seasons", tmp_path / places.sequence[0]).z, places.z[:5])


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("GNSSPoses.txt", f"{START},1,2\n", "row 1: 3 values"),
        ("GNSSPoses.txt", f"{START},1,2,3,0,0,0,1,0\n", "row 1: column 'scale' is '0'"),
        ("Transformations.txt", "1,2,3,0,0,0,1\n", "1 transforms"),
        ("Transformations.txt", "1,2,3,0,0,0,2\n", "line 1: transform_S_AS is not"),
    ],
)
def test_damaged_files_are_named(tmp_path: Path, file: str, text: str, words: str) -> None:
    (write(tmp_path) / file).write_text(text)
    with pytest.raises(BadInputError) as caught:
        read_places("four_seasons", tmp_path)
    assert file in str(caught.value)
    assert words in str(caught.value)
