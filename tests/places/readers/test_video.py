"""Videos with tracks: real, small videos, each frame of one gray that tells its number."""

import json
import math
import struct
import sys
import wave
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
from pyproj import Geod

from mappable.errors import BadInputError, MappableError
from mappable.places.readers import read_places
from mappable.places.table import Places
from telemetry_tracks import add_track, camm, gps5, gps9

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
    """Write a video whose frames are shown at these times; H.264 stores them in another order than it shows them."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(file), "w", options={"movflags": "faststart"} if file.suffix == ".mp4" else {}) as container:
        if created:
            container.metadata["creation_time"] = created
        stream = container.add_stream(codec, rate=10, options={"crf": "1"} if options is None else options)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        stream.codec_context.time_base = Fraction(1, 1000)
        for number, time in enumerate(milliseconds):
            frame = av.VideoFrame.from_ndarray(picture(number), format="rgb24")
            frame.pts, frame.time_base = time, Fraction(1, 1000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return file


def write_csv(file: Path, rows: Sequence[Sequence[object]], header: str = "time,x,y") -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = [header, *(",".join(str(value) for value in row) for row in rows)]
    file.write_text("\n".join(lines) + "\n")
    return file


def write_gpx(file: Path, segments: Sequence[Sequence[tuple[str, float, float]]]) -> Path:
    def point(time: str, latitude: float, longitude: float) -> str:
        return f'<trkpt lat="{latitude}" lon="{longitude}"><ele>7.5</ele><time>{time}</time></trkpt>'

    body = "".join("<trkseg>" + "".join(point(*values) for values in segment) + "</trkseg>" for segment in segments)
    file.write_text(f'<gpx xmlns="http://www.topografix.com/GPX/1/1" version="1.1"><trk>{body}</trk></gpx>')
    return file


def steady(file: Path, speed: float = 2.5, seconds: float = 4.0, start: float = 1_714_564_800.0) -> Path:
    """A track to the east at an even speed, a point every half second."""
    times = np.arange(0, seconds + 0.01, 0.5)
    return write_csv(file, [(f"{start + time:.3f}", speed * time, 0) for time in times])


def numbers(places: Places) -> list[int]:
    """The frame numbers that the pictures themselves show."""
    means = [float(np.asarray(Image.open(file).convert("L")).mean()) / GRAY_STEP for file in places.files]
    assert all(abs(mean - round(mean)) < 0.4 for mean in means)
    return [round(mean) for mean in means]


def listed(places: Places, words: str) -> list[str]:
    """The items of the one note whose text holds `words`."""
    notes = [note for note in places.notes if words in note.text]
    assert len(notes) == 1, [note.text for note in places.notes]
    return list(notes[0].items)


@pytest.fixture
def drive(tmp_path: Path) -> Path:
    """A folder with `drive.mp4`, 40 frames in 3.9 s, and `drive.csv`, 2.5 m/s to the east: 0.25 m a frame."""
    encode(tmp_path / "drive.mp4")
    steady(tmp_path / "drive.csv")
    return tmp_path


def test_one_frame_is_taken_every_metre_and_it_is_the_right_one(drive: Path) -> None:
    places = read_places("video", drive)
    assert numbers(places) == list(range(0, 40, 4))
    np.testing.assert_allclose(places.x, np.arange(10), atol=1e-9)
    assert not places.y.any()
    assert places.time.tolist() == [NOON + number * 100 * MILLISECOND for number in range(0, 40, 4)]
    assert list(places.place_id) == [f"drive/{number * 100:08d}" for number in range(0, 40, 4)]
    assert list(places.path) == [f"drive-frames/{number * 100:08d}.jpg" for number in range(0, 40, 4)]
    assert set(places.sequence) == {"drive"}
    assert places.unit == "m"
    assert np.isnan(places.yaw).all()
    assert not [note for note in places.notes if note.warning]


@pytest.mark.parametrize(("spacing", "expected"), [(0.25, range(40)), (0.5, range(0, 40, 2)), (9, [0, 36]), (20, [0])])
def test_spacing_is_the_distance_between_frames(drive: Path, spacing: float, expected: Sequence[int]) -> None:
    assert numbers(read_places("video", drive, spacing=spacing)) == list(expected)


def test_a_spacing_that_no_frame_hits_takes_the_next_frame_and_does_not_drift(drive: Path) -> None:
    places = read_places("video", drive, spacing=0.6)
    expected = [math.ceil(step * 0.6 / 0.25 - 1e-9) for step in range(17)]
    assert numbers(places) == [number for number in expected if number < 40]


def test_the_video_itself_may_be_the_root(drive: Path) -> None:
    assert read_places("video", drive / "drive.mp4") == read_places("video", drive)


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
    np.testing.assert_allclose(places.x, [3.0 * times[number] / 1000 for number in expected], atol=1e-6)
    assert places.time.tolist() == [NOON + times[number] * MILLISECOND for number in expected]


@pytest.mark.parametrize(("name", "codec"), [("drive.mkv", "libx264"), ("drive.ts", "libx264"), ("drive.AVI", "mjpeg")])
def test_other_containers_work_too(tmp_path: Path, name: str, codec: str) -> None:
    options = {"qmin": "1", "qmax": "2", "strict": "unofficial"} if codec == "mjpeg" else None
    encode(tmp_path / name, codec=codec, options=options)
    steady(tmp_path / "drive.csv")
    places = read_places("video", tmp_path, start=CREATED)
    assert numbers(places) == list(range(0, 40, 4))
    np.testing.assert_allclose(places.x, np.arange(10), atol=1e-6)


def test_a_gpx_track_places_frames_on_the_ellipsoid(tmp_path: Path) -> None:
    encode(tmp_path / "ride.mp4", range(0, 10_000, 250))
    geod = Geod(ellps="WGS84")
    path = [geod.fwd(-1.2577, 51.752, 60, 4.0 * second)[:2] for second in range(11)]
    points = [(f"2024-05-01T12:00:{second:02d}Z", lat, lon) for second, (lon, lat) in enumerate(path)]
    write_gpx(tmp_path / "ride.gpx", [points[:5], points[5:]])  # two segments, a second apart
    places = read_places("video", tmp_path, spacing=3.9)  # UTM shrinks 4 m to 3.9987 m here
    assert numbers(places) == list(range(0, 40, 4))
    (frame,) = places.frames.values()
    latitude, longitude = frame.to_latlon(places.positions)
    np.testing.assert_allclose(latitude, [lat for _, lat in path[:10]], atol=1e-9)
    np.testing.assert_allclose(longitude, [lon for lon, _ in path[:10]], atol=1e-9)
    assert places.z.tolist() == [7.5] * 10


def test_the_options_start_and_offset_move_the_video_along_the_track(drive: Path) -> None:
    steady(drive / "drive.csv", seconds=60)
    later = read_places("video", drive, offset_s=10.0)
    np.testing.assert_allclose(later.x, 25 + np.arange(10), atol=1e-6)
    assert numbers(later) == list(range(0, 40, 4))
    assert later.time[0] == NOON + 10 * SECOND
    told = read_places("video", drive, start="2024-05-01T14:00:20+02:00", offset_s=0.4)
    np.testing.assert_allclose(told.x, 51 + np.arange(10), atol=1e-6)


def test_without_a_creation_time_the_video_begins_with_its_track_and_that_is_noted(tmp_path: Path) -> None:
    encode(tmp_path / "drive.mp4", created=None)
    steady(tmp_path / "drive.csv", start=0.0)  # seconds since the start are a time as well
    places = read_places("video", tmp_path)
    assert numbers(places) == list(range(0, 40, 4))
    assert places.time[1] == 400 * MILLISECOND
    assert listed(places, "have no start time") == ["drive.mp4"]


def test_frames_outside_the_track_are_left_out_and_counted(tmp_path: Path) -> None:
    encode(tmp_path / "drive.mp4")
    write_csv(tmp_path / "drive.csv", [("2024-05-01T12:00:01Z", 0, 0), ("2024-05-01T12:00:03Z", 5, 0)])
    places = read_places("video", tmp_path)
    assert numbers(places) == [10, 14, 18, 22, 26, 30]
    assert listed(places, "outside their track") == [
        "drive.mp4: 10 frames, 2024-05-01T12:00:00.000Z to 2024-05-01T12:00:00.900Z",
        "drive.mp4: 9 frames, 2024-05-01T12:00:03.100Z to 2024-05-01T12:00:03.900Z",
    ]


def test_a_video_and_a_track_of_different_days_are_an_error_that_shows_both(tmp_path: Path) -> None:
    encode(tmp_path / "drive.mp4", created="1999-12-31T23:00:00Z")
    steady(tmp_path / "drive.csv")
    with pytest.raises(
        BadInputError,
        match=r"drive\.mp4.*1999-12-31T23:00:00\.000Z.*2024-05-01T12:00:00\.000Z",
    ):
        read_places("video", tmp_path)


def test_frames_in_a_gap_of_the_track_are_left_out_and_counted(tmp_path: Path) -> None:
    encode(tmp_path / "drive.mp4", range(0, 40_000, 1000))
    rows = [(1_714_564_800 + second, second, 0) for second in range(40) if not 10 < second < 20]
    write_csv(tmp_path / "drive.csv", rows)
    places = read_places("video", tmp_path, spacing=2.0)
    assert numbers(places) == [*range(0, 11, 2), *range(20, 40, 2)]
    assert listed(places, "gap of more than 5 s") == [
        "drive.mp4: 9 frames, 2024-05-01T12:00:11.000Z to 2024-05-01T12:00:19.000Z"
    ]
    patient = read_places("video", tmp_path, spacing=2.0, max_gap_s=10)
    assert numbers(patient) == list(range(0, 40, 2))
    assert not [note for note in patient.notes if note.warning]


def test_yaw_is_the_heading_of_the_track_if_it_has_one(drive: Path) -> None:
    rows = [
        (1_714_564_800 + second, 2.5 * second, 0, heading) for second, heading in enumerate((350, 10, 90, 180, 180))
    ]
    write_csv(drive / "drive.csv", rows, "time,x,y,heading")
    for option in ("none", "course"):
        yaw = read_places("video", drive, spacing=1.25, heading=option).yaw
        compass = np.rad2deg(np.pi / 2 - yaw) % 360
        expected = [350, 0, 10, 50, 90, 135, 180, 180]
        np.testing.assert_allclose((compass - expected + 180) % 360, 180, atol=1e-6)


def test_yaw_is_the_direction_of_motion_on_request(drive: Path) -> None:
    rows = [(1_714_564_800, 0, 0), (1_714_564_801, 0, 10), (1_714_564_802, 0, 20), (1_714_564_804, -20, 20)]
    write_csv(drive / "drive.csv", rows)
    assert np.isnan(read_places("video", drive).yaw).all()
    places = read_places("video", drive, heading="course")
    np.testing.assert_allclose(places.yaw[places.time <= NOON + 1_500 * MILLISECOND], np.pi / 2)
    np.testing.assert_allclose(places.yaw[places.time >= NOON + 3_000 * MILLISECOND], np.pi)
    turning = places.yaw[(places.time > NOON + 1_500 * MILLISECOND) & (places.time < NOON + 3_000 * MILLISECOND)]
    assert (np.diff(turning) > 0).all()


def snapshot(folder: Path) -> dict[str, int]:
    return {file.name: file.stat().st_mtime_ns for file in folder.iterdir()}


def test_a_second_run_writes_nothing_and_gives_the_same_table(drive: Path) -> None:
    first = read_places("video", drive)
    before = snapshot(drive / "drive-frames")
    assert read_places("video", drive) == first
    assert snapshot(drive / "drive-frames") == before


def test_only_missing_frames_are_written_again(drive: Path) -> None:
    first = read_places("video", drive)
    for file in first.files[2:4]:
        file.unlink()
    kept = snapshot(drive / "drive-frames")
    again = read_places("video", drive)
    assert again == first
    assert numbers(again) == list(range(0, 40, 4))
    after = snapshot(drive / "drive-frames")
    assert {name: after[name] for name in kept} == kept
    assert len(after) == len(kept) + 2


def test_another_spacing_leaves_no_stale_frames_in_the_table(drive: Path) -> None:
    read_places("video", drive, spacing=0.25)
    places = read_places("video", drive, spacing=3.0)
    assert numbers(places) == [0, 12, 24, 36]
    assert len(list((drive / "drive-frames").glob("*.jpg"))) == 40


def test_frames_can_go_to_another_folder(drive: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "frames"
    places = read_places("video", drive, frames=elsewhere)
    assert not (drive / "drive-frames").exists()
    assert places.root == elsewhere
    assert list(places.path) == [f"drive/{number * 100:08d}.jpg" for number in range(0, 40, 4)]
    assert numbers(places) == list(range(0, 40, 4))
    assert list(places.place_id) == list(read_places("video", drive).place_id)


def test_frames_of_a_video_that_was_replaced_never_pass_for_those_of_the_new_one(drive: Path) -> None:
    read_places("video", drive)
    encode(drive / "drive.mp4", picture=lambda number: gray(number + 20))
    with pytest.raises(BadInputError, match=r"drive-frames.*drive\.mp4"):
        read_places("video", drive)


def test_a_folder_with_other_files_is_not_written_to(drive: Path) -> None:
    (drive / "drive-frames").mkdir()
    (drive / "drive-frames" / "holiday.jpg").touch()
    with pytest.raises(BadInputError, match="drive-frames"):
        read_places("video", drive)
    assert [file.name for file in (drive / "drive-frames").iterdir()] == ["holiday.jpg"]


def test_frames_are_jpeg_files_beside_a_record_of_their_video(drive: Path) -> None:
    places = read_places("video", drive)
    with Image.open(places.files[0]) as image:
        assert (image.format, image.mode, image.size) == ("JPEG", "RGB", (64, 48))
        finest = min(max(table) for table in image.quantization.values())  # type: ignore[attr-defined]
    assert finest <= 10  # quality 95; the default of 75 has 50
    record = json.loads((drive / "drive-frames" / "video.json").read_text())
    assert (record["format"], len(record["sha256"])) == ("mappable frames", 64)
    assert sorted(file.name for file in drive.iterdir()) == ["drive-frames", "drive.csv", "drive.mp4"]


def test_a_video_held_upright_comes_out_upright(tmp_path: Path) -> None:
    def half(number: int) -> np.ndarray[Any, Any]:
        picture = gray(0)
        picture[:, :32] = 200  # the left half is bright: turned right by 90 degrees it is the upper half
        return picture

    file = encode(tmp_path / "drive.mp4", picture=half)
    data = bytearray(file.read_bytes())
    matrix = data.index(b"tkhd") + 4 + 40
    assert struct.unpack(">9i", data[matrix : matrix + 36]) == (65536, 0, 0, 0, 65536, 0, 0, 0, 1 << 30)
    data[matrix : matrix + 36] = struct.pack(">9i", *UPRIGHT.ravel().tolist())
    file.write_bytes(data)
    steady(tmp_path / "drive.csv")
    picture = np.asarray(Image.open(read_places("video", tmp_path).files[0]).convert("L"))
    assert picture.shape == (64, 48)
    assert picture[:30].mean() > 190
    assert picture[-30:].mean() < 10


def test_damage_in_the_middle_is_one_sentence_and_the_frames_before_it_remain(tmp_path: Path) -> None:
    file = encode(tmp_path / "drive.mp4", options={"crf": "1", "g": "5", "bf": "0", "threads": "1"})
    steady(tmp_path / "drive.csv")
    with av.open(str(file)) as container:
        packets = [(packet.pts, packet.pos, packet.size) for packet in container.demux(video=0) if packet.size]
    whole = file.read_bytes()
    position, size = packets[25][1:]
    file.write_bytes(whole[:position] + b"\xff" * size + whole[position + size :])
    with pytest.raises(BadInputError, match=r"drive\.mp4.*damaged") as error:
        read_places("video", tmp_path, spacing=0.25)
    assert "\n" not in str(error.value)
    written = sorted(file.name for file in (tmp_path / "drive-frames").glob("*.jpg"))
    assert written == [f"{number * 100:08d}.jpg" for number in range(len(written))]
    assert 15 <= len(written) <= 25


def test_a_video_whose_end_is_missing_is_used_as_far_as_it_goes_and_noted(tmp_path: Path) -> None:
    noisy = np.random.default_rng(1).integers(0, 255, (40, 48, 64, 3), dtype=np.uint8)
    file = encode(tmp_path / "drive.mkv", picture=lambda number: noisy[number], options={"crf": "30", "g": "1"})
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    steady(tmp_path / "drive.csv")
    places = read_places("video", tmp_path)
    assert 3 <= len(places) <= 6
    (item,) = listed(places, "truncated")
    assert item.startswith("drive.mkv ends after")
    assert item.endswith("but declares 4.0 s")


@pytest.mark.parametrize("name", ["drive.mp4", "drive.mkv", "drive.ts"])
def test_a_video_cut_anywhere_gives_its_frames_or_one_sentence(tmp_path: Path, name: str) -> None:
    whole = encode(tmp_path / name).read_bytes()
    steady(tmp_path / "drive.csv")
    for share in range(1, 10):
        (tmp_path / name).write_bytes(whole[: len(whole) * share // 10])
        try:
            places = read_places("video", tmp_path, start=CREATED, frames=tmp_path / f"frames-{share}")
            shown, x, sentence = numbers(places), places.x, ""
        except BadInputError as error:
            shown, x, sentence = [], np.array([]), str(error)
        np.testing.assert_allclose(x, 0.25 * np.array(shown), atol=1e-6)
        assert shown or (name in sentence and "\n" not in sentence)


def test_words_in_another_encoding_within_a_video_do_no_harm(drive: Path) -> None:
    file = drive / "drive.mp4"
    data = file.read_bytes()
    assert data.count(b"VideoHandler") == 1
    file.write_bytes(data.replace(b"VideoHandler", "Straßenfahrt".encode("latin-1")))
    assert numbers(read_places("video", drive)) == list(range(0, 40, 4))


@pytest.mark.parametrize("kept", [0, 20, 400])
def test_a_video_that_cannot_be_opened_is_one_sentence(drive: Path, kept: int) -> None:
    file = drive / "drive.mp4"
    file.write_bytes(file.read_bytes()[:kept])
    with pytest.raises(BadInputError, match=r"drive\.mp4.*truncated") as error:
        read_places("video", drive)
    assert "\n" not in str(error.value)
    assert not (drive / "drive-frames").exists()


def test_a_file_without_pictures_is_refused(drive: Path) -> None:
    with wave.open(str(drive / "drive.mp4"), "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8000)
        sound.writeframes(bytes(1600))
    with pytest.raises(BadInputError, match=r"drive\.mp4.*video"):
        read_places("video", drive)


def test_time_stamps_that_cannot_be_trusted_are_refused(tmp_path: Path) -> None:
    encode(tmp_path / "drive.avi")  # AVI has no room for the order in which H.264 shows its frames
    steady(tmp_path / "drive.csv")
    with pytest.raises(BadInputError, match=r"drive\.avi.*MP4"):
        read_places("video", tmp_path, spacing=0.25)


def test_several_videos_share_the_frame_of_their_tracks(tmp_path: Path) -> None:
    for name, longitude in (("a", 11.999), ("b", 12.001)):
        encode(tmp_path / f"{name}.mp4", range(0, 4000, 400))
        points = [(f"2024-05-01T12:00:0{second}Z", 48.1 + second * 1e-5, longitude) for second in range(5)]
        write_gpx(tmp_path / f"{name}.GPX", [points])
    encode(tmp_path / "c.mp4", range(0, 400, 100))
    places = read_places("video", tmp_path)
    assert len(places.frames) == 1
    assert set(places.sequence) == {"a", "b"}
    rows = places.sequences()
    true = Geod(ellps="WGS84").inv(11.999, 48.1, 12.001, 48.1)[2]
    apart = math.dist(places.positions[rows["a"][0]], places.positions[rows["b"][0]])
    assert apart == pytest.approx(true, rel=1e-3)
    assert listed(places, "no track next to them") == ["c.mp4"]


def test_one_track_may_serve_all_videos(tmp_path: Path) -> None:
    encode(tmp_path / "videos" / "left.mp4")
    encode(tmp_path / "videos" / "right.mp4", created="2024-05-01T12:00:02Z")
    track = steady(tmp_path / "walk.csv", seconds=10)
    places = read_places("video", tmp_path / "videos", track=track)
    rows = places.sequences()
    np.testing.assert_allclose(places.x[rows["left"]], np.arange(10), atol=1e-6)
    np.testing.assert_allclose(places.x[rows["right"]], 5 + np.arange(10), atol=1e-6)
    assert list(places.frames) == ["videos"]


def test_frames_of_one_millisecond_count_as_one(tmp_path: Path) -> None:
    with av.open(str(tmp_path / "drive.mp4"), "w") as container:
        container.metadata["creation_time"] = CREATED
        stream = container.add_stream("libx264", rate=4000, options={"crf": "1"})
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for number in range(40):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(gray(number), format="rgb24")))
        container.mux(stream.encode())
    steady(tmp_path / "drive.csv", speed=1000)
    places = read_places("video", tmp_path, spacing=0.25)
    assert len(places) == len({*places.path}) == 11
    np.testing.assert_allclose(places.x, np.array(numbers(places)) * 0.25, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"spacing": 0.0}, r"spacing.*0.0"),
        ({"spacing": math.nan}, r"spacing.*nan"),
        ({"max_gap_s": -1.0}, r"--max-gap-s is -1.0"),
        ({"offset_s": math.inf}, r"--offset-s is inf"),
        ({"start": "yesterday"}, r"start.*'yesterday'.*time"),
        ({"start": "2262-04-11T23:47:16Z"}, r"beyond.*2262"),
        ({"track": Path("nowhere.gpx")}, r"nowhere.gpx.*read"),
    ],
)
def test_options_that_make_no_sense_are_refused(drive: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        read_places("video", drive, **options)
    assert not (drive / "drive-frames").exists()


def test_videos_and_tracks_must_be_told_apart_by_name(drive: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    with pytest.raises(BadInputError, match="video"):
        read_places("video", tmp_path_factory.mktemp("empty"))
    (drive / "drive.gpx").touch()
    with pytest.raises(BadInputError, match=r"drive\.csv.*drive\.gpx"):
        read_places("video", drive)
    (drive / "drive.mov").touch()
    with pytest.raises(BadInputError, match=r"drive\.mov.*drive\.mp4"):
        read_places("video", drive)


def test_a_video_without_a_track_is_an_error_that_says_so(drive: Path) -> None:
    (drive / "drive.csv").unlink()
    with pytest.raises(BadInputError, match=r"1.*\.gpx.*\.csv"):
        read_places("video", drive)


def test_without_pyav_one_sentence_says_what_to_install(drive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(MappableError, match=r"PyAV; install the extra video: pip install 'mappable\[video\]'"):
        read_places("video", drive)


# Positions from the camera itself.


def north(metres: float) -> float:
    """The latitude this many metres north of 47 degrees, on the ellipsoid."""
    return float(Geod(ellps="WGS84").fwd(8.5, 47.0, 0.0, metres)[1])


def along(start: float, count: int, step: float) -> list[tuple[float, float, float]]:
    return [(north(start + step * number), 8.5, 400.0 + number) for number in range(count)]


def encode_plain(file: Path) -> Path:
    """The video of `drive` with its moov box at the end, as cameras write it; created by a clock of local time."""
    with av.open(str(file), "w") as container:
        container.metadata["creation_time"] = "2024-05-01T14:00:00Z"
        stream = container.add_stream("libx264", rate=10, options={"crf": "1"})
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for number in range(40):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(gray(number), format="rgb24")))
        container.mux(stream.encode())
    return file


def check_walk(places: Places, start: int) -> None:
    """Frames every metre of a walk to the north at 2.5 m/s, as `drive` has them."""
    assert numbers(places) == list(range(0, 40, 4))
    latitude, longitude = places.frames[places.frame[0]].to_latlon(places.positions)
    np.testing.assert_allclose(latitude, [north(metre) for metre in range(10)], rtol=0, atol=1e-7)
    np.testing.assert_allclose(longitude, 8.5, rtol=0, atol=1e-7)
    assert places.time.tolist() == [start + number * 400 * MILLISECOND for number in range(10)]
    assert not [note for note in places.notes if note.warning]


@pytest.mark.parametrize("kind", ["gps5", "gps9", "camm"])
def test_a_camera_s_own_positions_need_no_clock(tmp_path: Path, kind: str) -> None:
    file = encode_plain(tmp_path / "GX010001.mp4")
    days = int((np.datetime64("2024-05-01") - np.datetime64("2000-01-01")).astype(int))
    gps_noon = NOON // 10**9 - 315_964_800 + 18  # GPS time counts from 1980, without leap seconds
    steps = [along(2.5 * second, 10, 0.25) for second in range(4)]
    samples = {
        "gps5": [(1000, gps5(step, b"2405011200%02d.000" % second)) for second, step in enumerate(steps)],
        "gps9": [(1000, gps9(step, days, 43_200_000 + 1000 * second)) for second, step in enumerate(steps)],
        "camm": [(100, camm(*point, gps_seconds=gps_noon + n / 10)) for n, point in enumerate(along(0, 40, 0.25))],
    }
    add_track(file, b"camm" if kind == "camm" else b"gpmd", samples[kind])
    places = read_places("video", tmp_path, spacing=0.999)
    assert listed(places, "positions of their own") == [
        f"GX010001.mp4: 40 in its {kind[:4].upper().replace('GPS5', 'GPMF').replace('GPS9', 'GPMF')} track"
    ]
    check_walk(places, NOON)


def test_time_codes_of_a_camera_are_not_positions(tmp_path: Path) -> None:
    file = add_track(encode_plain(tmp_path / "a.mp4"), b"gpmd", [(4000, struct.pack(">I", 0x500))])
    with pytest.raises(BadInputError, match="no positions inside"):
        read_places("video", file)
    add_track(file, b"gpmd", [(1000, gps5(along(2.5 * second, 10, 0.25))) for second in range(4)])
    assert len(read_places("video", file)) == 10


def test_positions_without_a_fix_are_left_out(tmp_path: Path) -> None:
    file = encode_plain(tmp_path / "a.mp4")
    lost, known = gps5([(12.0, 13.0, 0.0)] * 10, fix=0), [gps5(along(2.5 * n, 10, 0.25)) for n in (1, 2, 3)]
    add_track(file, b"gpmd", [(1000, payload) for payload in (lost, *known)])
    places = read_places("video", tmp_path)
    assert len(listed(places, "no fix")) == 10
    assert numbers(places)[0] == 10


def test_camm_samples_without_a_time_count_from_the_file_s_creation(tmp_path: Path) -> None:
    file = add_track(encode_plain(tmp_path / "a.mp4"), b"camm", [(100, camm(*p)) for p in along(0, 41, 0.25)])
    check_walk(read_places("video", file, spacing=0.999), NOON + 7200 * SECOND)


@pytest.mark.parametrize("style", ["brackets", "typo", "gps"])
def test_subtitles_of_a_drone_count_from_the_first_frame(tmp_path: Path, style: str) -> None:
    encode(tmp_path / "DJI_0001.mp4")
    blocks = []
    for number, (latitude, longitude, altitude) in enumerate(along(0, 41, 0.25)):
        cue = f"00:00:{number // 10:02d},{number % 10}00 --> 00:00:{number // 10:02d},{number % 10}99"
        name = "longtitude" if style == "typo" else "longitude"
        height = f"[altitude: {altitude}]" if style == "typo" else f"[rel_alt: 1.0 abs_alt: {altitude}]"
        words = f"[iso : 100] [latitude: {latitude:.9f}] [{name}: {longitude:.9f}] {height}"
        if style == "gps":
            words = f"HOME(8.4,46.9) GPS({longitude:.9f},{latitude:.9f},19) BAROMETER:1.9"
        blocks.append(f"{number + 1}\n{cue}\nSrtCnt : 1, DiffTime : 100ms\n2024-05-01 14:00:00.000\n{words}\n")
    (tmp_path / "DJI_0001.SRT").write_text("\n".join(blocks))
    places = read_places("video", tmp_path, spacing=0.999)
    check_walk(places, NOON)
    if style != "gps":
        assert places.z[0] == pytest.approx(400)


def sentence(body: str) -> str:
    total = 0
    for character in body:
        total ^= ord(character)
    return f"${body}*{total:02X}"


def nmea(degrees: float, width: int) -> str:
    whole = int(degrees)
    return f"{whole:0{width}d}{60 * (degrees - whole):010.7f}"


def test_an_nmea_log_next_to_the_video(tmp_path: Path) -> None:
    encode(tmp_path / "drive.mp4")
    lines = ["garbage", "$GPGSV,1,1,00*79"]
    for number, (latitude, longitude, altitude) in enumerate(along(0, 41, 0.25)):
        clock = f"1200{number // 10:02d}.{number % 10}00"
        place = f"{nmea(latitude, 2)},N,{nmea(longitude, 3)},E"
        height = sentence(f"GPGGA,{clock},{place},1,08,0.9,{altitude},M,47.0,M,,")
        fix = sentence(f"GNRMC,{clock},A,{place},4.9,0.0,010524,,,A")
        lines += [height, fix] if number % 2 else [fix, height]  # receivers write either one first
    lines.insert(5, "$GPRMC,120000.100,A,4700.0,N,00830.0,E,4.9,0.0,010524,,,A*00")
    lines.insert(6, sentence("GPRMC,120000.150,V,,,,,,,010524,,,N"))
    (tmp_path / "drive.nmea").write_text("\r\n".join(lines))
    places = read_places("video", tmp_path, spacing=0.999)
    assert listed(places, "damaged") == ["drive.nmea, row 6"]
    check_walk(places.replace(notes=()), NOON)
    np.testing.assert_allclose(places.z, 400 + 4 * np.arange(10))


CUE = "1\n00:00:00,000 --> 00:00:01,000\n"


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("drive.srt", f"{CUE}hello\n", "drive.srt: no cue"),
        ("drive.srt", f"{CUE}[latitude: 99] [longitude: 8]\n", "drive.srt, row 2: latitude 99"),
        ("drive.nmea", "$GPRMC,1,2\n", "drive.nmea: no RMC"),
    ],
)
def test_logs_without_positions_are_named(tmp_path: Path, name: str, text: str, words: str) -> None:
    encode(tmp_path / "drive.mp4")
    (tmp_path / name).write_text(text)
    with pytest.raises(BadInputError, match=words):
        read_places("video", tmp_path)


def test_damaged_telemetry_is_named(tmp_path: Path) -> None:
    good = gps5(along(0, 10, 0.25))
    zero = good.replace(struct.pack(">5i", 10_000_000, 10_000_000, 1000, 1000, 100), bytes(20))
    for number, (payload, words) in enumerate(((good[:-30], "states"), (zero, r"SCAL is \[0, 0"))):
        file = add_track(encode_plain(tmp_path / f"{number}.mp4"), b"gpmd", [(1000, payload)])
        with pytest.raises(BadInputError, match=rf"{number}\.mp4: its GPMF track is damaged.*{words}"):
            read_places("video", file)
    file = add_track(encode_plain(tmp_path / "c.mp4"), b"camm", [(100, camm(47, 8, 1)[:12])])
    with pytest.raises(BadInputError, match=r"c\.mp4: its CAMM track is damaged \(sample 0"):
        read_places("video", file)


def test_the_recipe_for_lerobot_makes_tracks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
        pyarrow.parquet.write_table(pyarrow.table(table), home / folder / "chunk-000/file-000.parquet")
    page = (Path(__file__).parents[3] / "docs/what-do-you-have.md").read_text()
    monkeypatch.chdir(tmp_path)
    exec(page.split("```python\n")[1].split("```")[0], {})
    places = read_places("video", home / f"videos/{camera}/chunk-000", start="1970-01-01T00:00:00Z")
    np.testing.assert_allclose(places.x[:20], np.arange(20), atol=1e-5)  # the format stores times as float32
    np.testing.assert_allclose(places.yaw, 0.5, atol=1e-6)
