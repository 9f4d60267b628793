"""Every reader of text, names and images refuses any edited file with one sentence, or reads it."""

import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trust import fuzz

# Targets whose seeds need no made-up set; `python scripts/trust --short` tries the others.
NAMES = [
    *("manifest in degrees", "kitti poses", "kitti times", "tum trajectory", "tum list", "robotcar ins.csv"),
    *("msls postprocessed.csv", "msls raw.csv", "msls seq_info.csv", "pittsburgh .mat", "cold names", "utm names"),
    *("photos", "track .gpx", "track .csv", "image .png", "image .jpg", "image .webp", "image .tiff", "image .gif"),
    *("colmap text", "colmap binary", "transforms.json", "track .srt", "track .nmea", "boreas poses"),
    *("matrices .pose.txt", "euroc poses", "nclt ground truth", "kitti-360 poses", "mapillary .json"),
    *("kapture trajectories", "rosbag ros1", "4seasons poses", "4seasons transforms"),
    *("odometry.csv", "turns.csv", "multipart body", "field known", "descriptors body", "descriptors body .npy"),
    "description .yaml",
]
EDITS = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 20), st.binary(max_size=6) | st.sampled_from(fuzz.NUMBERS + fuzz.WORDS)),
    min_size=1,
    max_size=4,
)


@pytest.fixture(params=NAMES)
def prepared(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[fuzz.Target, Path, Path, bytes]]:
    target = fuzz.TARGETS[request.param]
    folder = tmp_path / "in"
    folder.mkdir()
    file = target.seed(tmp_path, folder)
    target.read(tmp_path, folder)  # the seed is good
    data = file.name.encode() if target.as_name else file.read_bytes()
    if target.as_name:
        file.unlink()
    with warnings.catch_warnings(action="ignore"):
        yield target, folder, file, data


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(edits=EDITS)
def test_an_edited_file_is_read_or_refused(
    prepared: tuple[fuzz.Target, Path, Path, bytes], edits: list[tuple[float, int, bytes]]
) -> None:
    target, folder, file, data = prepared
    for where, length, new in edits:
        at = int(where * len(data))
        data = data[:at] + new + data[at + length :]
    assert fuzz.try_input(target, folder, folder, file, data) == ""
