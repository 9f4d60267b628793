"""Videos with tracks: real, small videos, each frame of one gray that tells its number."""

import struct
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from PIL import Image

from mappable.errors import BadInputError
from mappable.places.table import Places
from mappable.readers.registry import read_places
from reader_folders import lines, put

NOON = 1_714_564_800 * 10**9  # 2024-05-01T12:00:00Z

CREATED = "2024-05-01T12:00:00Z"

SECOND, MILLISECOND = 10**9, 10**6

GRAY_STEP = 4

UPRIGHT = np.array(
    [[0, 65536, 0], [-65536, 0, 0], [0, 0, 1 << 30]]
)  # the matrix of a phone held upright: turn right by 90°


def gray(number: int) -> np.ndarray[Any, Any]:
    return np.full((48, 64, 3), number * GRAY_STEP, dtype=np.uint8)


def encode(
    file: Path,
    milliseconds: Sequence[int] = range(0, 4000, 100),
    *,
    created: str | None = CREATED,
    picture: Callable[[int], np.ndarray[Any, Any]] = gray,
    codec: str = "libx264",
    options: dict[str, str] | None = None,
) -> Path:
    """Write a video whose frames are shown at these times; H.264 stores them in another order than
    it shows them.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    with av.open(
        str(file), "w", options={"movflags": "faststart"} if file.suffix == ".mp4" else {}
    ) as container:
        if created:
            container.metadata["creation_time"] = created
        stream = container.add_stream(
            codec, rate=10, options={"crf": "1"} if options is None else options
        )
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        stream.codec_context.time_base = Fraction(1, 1000)
        for number, time in enumerate(milliseconds):
            frame = av.VideoFrame.from_ndarray(picture(number), format="rgb24")
            frame.pts, frame.time_base = time, Fraction(1, 1000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return file


def steady(file: Path, speed: float = 2.5, seconds: float = 4.0) -> Path:
    """A track to the east at an even speed, a point every half second."""
    times = np.arange(0, seconds + 0.01, 0.5)
    return put(
        file, lines(["time,x,y", *(f"{NOON / 1e9 + time:.3f},{speed * time},0" for time in times)])
    )


def numbers(places: Places) -> list[int]:
    """The frame numbers that the pictures themselves show."""
    means = [
        float(np.asarray(Image.open(file).convert("L")).mean()) / GRAY_STEP for file in places.files
    ]
    assert all(abs(mean - round(mean)) < 0.4 for mean in means)
    return [round(mean) for mean in means]


@pytest.fixture
def drive(tmp_path: Path) -> Path:
    """A folder with `drive.mp4`, 40 frames in 3.9 s, and `drive.csv`, 2.5 m/s to the east: 0.25 m a
    frame.
    """
    encode(tmp_path / "drive.mp4")
    steady(tmp_path / "drive.csv")
    return tmp_path


def test_frames_of_a_video_with_varying_rate_are_placed_by_their_own_times(tmp_path: Path) -> None:
    pauses = np.random.default_rng(7).integers(5, 400, 39)
    times = [0, *np.cumsum(pauses).tolist()]
    encode(tmp_path / "drive.mp4", times)
    steady(tmp_path / "drive.csv", speed=3.0, seconds=10)
    places = read_places("video", tmp_path, spacing=2.0)
    expected, reached = [], 0.0
    for number, time in enumerate(times):
        if 3.0 * time / 1000 >= reached - 1e-6:
            expected.append(number)
            reached = (3.0 * time / 1000 // 2.0 + 1) * 2.0
    assert numbers(places) == expected
    np.testing.assert_allclose(
        places.x, [3.0 * times[number] / 1000 for number in expected], atol=1e-6
    )
    assert places.time.tolist() == [NOON + times[number] * MILLISECOND for number in expected]


def test_frames_of_a_video_that_was_replaced_never_pass_for_those_of_the_new_one(
    drive: Path,
) -> None:
    read_places("video", drive)
    encode(drive / "drive.mp4", picture=lambda number: gray(number + 20))
    with pytest.raises(BadInputError, match=r"drive-frames.*drive\.mp4"):
        read_places("video", drive)


def test_a_video_held_upright_comes_out_upright(tmp_path: Path) -> None:
    def half(number: int) -> np.ndarray[Any, Any]:
        picture = gray(0)
        # The left half is bright: turned right by 90 degrees it is the upper half.
        picture[:, :32] = 200
        return picture

    file = encode(tmp_path / "drive.mp4", picture=half)
    data = bytearray(file.read_bytes())
    matrix = data.index(b"tkhd") + 4 + 40
    assert struct.unpack(">9i", data[matrix : matrix + 36]) == (
        65536,
        0,
        0,
        0,
        65536,
        0,
        0,
        0,
        1 << 30,
    )
    data[matrix : matrix + 36] = struct.pack(">9i", *UPRIGHT.ravel().tolist())
    file.write_bytes(data)
    steady(tmp_path / "drive.csv")
    picture = np.asarray(Image.open(read_places("video", tmp_path).files[0]).convert("L"))
    assert picture.shape == (64, 48)
    assert picture[:30].mean() > 190
    assert picture[-30:].mean() < 10


@pytest.mark.parametrize("name", ["drive.mp4", "drive.mkv", "drive.ts"])
def test_a_video_cut_anywhere_gives_its_frames_or_one_sentence(tmp_path: Path, name: str) -> None:
    whole = encode(tmp_path / name).read_bytes()
    steady(tmp_path / "drive.csv")
    for share in range(1, 10):
        (tmp_path / name).write_bytes(whole[: len(whole) * share // 10])
        try:
            places = read_places(
                "video", tmp_path, start=CREATED, frames=tmp_path / f"frames-{share}"
            )
            shown, x, sentence = numbers(places), places.x, ""
        except BadInputError as error:
            shown, x, sentence = [], np.array([]), str(error)
        np.testing.assert_allclose(x, 0.25 * np.array(shown), atol=1e-6)
        assert shown or (name in sentence and "\n" not in sentence)


def test_the_recipe_for_lerobot_makes_tracks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    camera, home = "observation.images.front", tmp_path / "walks"
    encode(
        home / f"videos/{camera}/chunk-000/file-000.mp4", created=None
    )  # two episodes of 20 frames, as version 3.0 says
    frames = [(episode, number) for episode in (0, 1) for number in range(20)]
    rows = {
        "episode_index": [episode for episode, _ in frames],
        "timestamp": pyarrow.array([number / 10 for _, number in frames], pyarrow.float32()),
        "observation.state": [[5.0 * episode + number, 0.25, 0.5] for episode, number in frames],
    }
    where = {f"videos/{camera}/{key}": [0, 0] for key in ("chunk_index", "file_index")}
    where |= {"episode_index": [0, 1], f"videos/{camera}/from_timestamp": [0.0, 2.0]}
    for folder, table in (("data", rows), ("meta/episodes", where)):
        (home / folder / "chunk-000").mkdir(parents=True)
        pyarrow.parquet.write_table(
            pyarrow.table(table), home / folder / "chunk-000/file-000.parquet"
        )
    page = (Path(__file__).parents[2] / "docs/readers.md").read_text()
    monkeypatch.chdir(tmp_path)
    exec(page.split("```python\n")[2].split("```")[0], {})
    places = read_places("video", home / f"videos/{camera}/chunk-000", start="1970-01-01T00:00:00Z")
    # The format stores times as float32.
    np.testing.assert_allclose(places.x[:20], np.arange(20), atol=1e-5)
    np.testing.assert_allclose(places.yaw, 0.5, atol=1e-6)
