"""Videos with a GPS track, in a file with the name of the video or in the video itself: frames at a fixed distance.

    ROOT/                       or ROOT may be one video
      drive.mp4                 also .mov, .m4v, .mkv, .webm, .avi, .mpg, .mpeg, .ts, .mts, .m2ts, .3gp, .wmv
      drive.gpx                 or drive.csv, drive.srt, drive.nmea; or one track for all videos (`--track`)
      drive-frames/             written by this reader
        00012345.jpg            the frame 12.345 s after the first frame
        video.json              identifies the video of the frames

Tracks:

- A GPX file needs a time in every track point. Several tracks and segments in one file are joined
  by time.
- A CSV file has a column `time`: ISO 8601, or a number since 1970 or since the start of the video.
  Numbers of up to 11 digits are seconds.
- A CSV file also has `latitude` and `longitude` (or `lat` and `lon`) in degrees, or `x` and `y` in
  metres. Optional columns are `altitude` or `z`, and `heading` (degrees, clockwise from north) or
  `yaw` (radians, counter-clockwise from +x).
- An SRT file is the subtitle file of a DJI drone. An NMEA file is the log of a GPS receiver, with
  RMC sentences.
- Without a file, the reader takes the positions in the video itself. GoPro cameras write them
  (GPMF), and some cameras for panoramas do (CAMM). They, and SRT files, count from the first frame,
  so no clock has to be set. Positions without a fix are left out.
- Tracks in degrees share one UTM frame. Tracks in x and y share one frame with the name of the
  folder.

Frames are chosen by the distance along the track, so a standing camera adds no frames. The time of
a frame is its presentation time plus the start of the video. `--start` gives the start. Without it,
the start is `creation_time` of the file, or else the first time of the track. Some cameras write
local time, or the end of the recording, as creation time. Correct that with `--offset-s`. The
reader leaves out and lists frames outside the track, and frames between two track points more than
`--max-gap-s` apart.

The reader writes the chosen frames as JPEG files next to the video, or below the folder `--frames`.
It keeps existing frames, also those of an interrupted run. If no frame is missing, it decodes
nothing. Each video is a sequence with the name of the file.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from mappable import progress
from mappable.arrays import Ints
from mappable.errors import BadInputError
from mappable.files import write_atomically
from mappable.places.images import JPEG_QUALITY
from mappable.places.notes import Findings
from mappable.places.table import Places
from mappable.readers.recordings import Recording, check_numbers, claim, frames_folder
from mappable.readers.telemetry import read_telemetry
from mappable.readers.toolkit import joined, list_folder
from mappable.readers.track_files import TrackPoints, in_frames, read_track
from mappable.readers.video_files import opened, reason, require_pyav
from mappable.times import nanoseconds

ONE_FILE = True
TRIAL = False  # reading takes long
SCORE = 0.8  # a folder of another format may hold a video, too
REMARK = "needs a track next to the video, or positions inside it"
SUFFIXES = frozenset(
    (
        ".mp4",
        ".mov",
        ".m4v",
        ".mkv",
        ".webm",
        ".avi",
        ".mpg",
        ".mpeg",
        ".ts",
        ".mts",
        ".m2ts",
        ".3gp",
        ".wmv",
    )
)
TRACK_SUFFIXES = (".gpx", ".csv", ".srt", ".nmea")
RECORD = "video.json"  # in a folder of frames: holds a checksum of the packets of the video


def fits(root: Path) -> str:
    """The first video with a track next to it, or with positions inside."""
    try:
        videos = _find_videos(root) if root.is_dir() or root.suffix.lower() in SUFFIXES else []
        for video in videos:
            if _track_beside(video) or (find_spec("av") and read_telemetry(video, Findings())):
                return video.name
    except BadInputError:
        pass
    return ""


def read(
    root: Path,
    found: Findings,
    *,
    track: Annotated[
        Path | None, "one track for all videos (default: the track next to each video)"
    ] = None,
    spacing: Annotated[
        float, "distance between frames along the track, in the unit of the track"
    ] = 1.0,
    start: Annotated[
        str | None, "start time of each video, ISO 8601 (default: creation_time of the file)"
    ] = None,
    offset_s: Annotated[float, "seconds to add to the time of each frame"] = 0.0,
    max_gap_s: Annotated[
        float, "largest time in seconds between the track points before and after a frame"
    ] = 5.0,
    heading: Annotated[
        Literal["none", "course"],
        "yaw, if the track has no heading: unknown, or the direction of travel (for a camera that"
        " looks forward)",
    ] = "none",
    frames: Annotated[
        Path | None,
        "folder for the frames (default: a folder such as drive-frames next to each video)",
    ] = None,
) -> Places:
    require_pyav()
    check_numbers(spacing, max_gap_s, offset_s)
    try:
        given = None if start is None else nanoseconds(start)
    except ValueError:
        raise BadInputError(f"--start is {start!r}, expected an ISO 8601 date and time") from None
    folder = root if root.is_dir() else root.parent
    sources = {file: track or _track_beside(file) or file for file in _find_videos(root)}
    points: dict[Path, TrackPoints] = {}  # by the file of the track, which may be the video itself
    for source in dict.fromkeys(sources.values()):
        positions = (
            read_telemetry(source, found) if source in sources else read_track(source, found)
        )
        if positions is not None:
            points[source] = positions.ordered(found)
    text = (
        f"videos have no positions inside, and no track next to them ({', '.join(TRACK_SUFFIXES)})"
    )
    found.note(text, (file.name for file, source in sources.items() if source not in points))
    routes = dict(zip(points, in_frames(list(points.values()), folder.resolve().name), strict=True))
    tables = []
    for file, source in sources.items():
        if source not in points:
            continue
        frame, route = routes[source]
        video, since_start = _scan(file, found), points[source].since_start
        clocks = (given, points[source].start, video.created)
        first = next((clock for clock in clocks if clock is not None), None)
        if first is None and not since_start:
            first = int(route.time[0])
            found.note(
                "videos have no start time; their first frame gets the first time of their track",
                [file.name],
            )
        begin = first or 0
        if since_start:
            route = replace(route, time=route.time + begin)
        try:
            time = np.array(
                [begin + round(offset_s * 1e9) + since for since in video.since_start],
                dtype=np.int64,
            )
        except OverflowError:
            what = "the times of its frames go beyond the year 2262"
            raise BadInputError(f"{file}: {what}; check --start and --offset-s") from None
        recording = Recording("videos", file.stem, file, time, video.names)
        # Files are named by milliseconds, so only one frame per millisecond is kept.
        first_of_name = np.diff([int(name) for name in video.names], prepend=-1) > 0
        rows = recording.choose(route, spacing, max_gap_s, found, first_of_name)
        images = frames_folder(file, file.stem, frames)
        rows = _extract(video, rows, images, found)
        jitter = spacing / 2 if heading == "course" else None
        tables.append(recording.places(rows, [".jpg"] * len(rows), images, frame, route, jitter))
    return joined(frames or folder, tables)


@dataclass(frozen=True)
class _Video:
    """One video. `ticks` are the presentation times of its frames in rising order, in units of
    `tick` seconds.

    `since_start` has the same times in ns since the first frame. `created` is the start of the
    video (ns), if known.
    """

    file: Path
    ticks: list[int]
    tick: Fraction
    since_start: list[int]
    created: int | None
    fingerprint: str

    @cached_property
    def names(self) -> list[str]:
        """The names of the files of the frames: milliseconds since the first frame."""
        return [f"{(time + 500_000) // 1_000_000:08d}" for time in self.since_start]


def _find_videos(root: Path) -> list[Path]:
    if root.is_file():
        return [root]
    files = (root / name for name in list_folder(root))
    videos = [file for file in files if file.suffix.lower() in SUFFIXES and file.is_file()]
    if not videos:
        raise BadInputError(
            f"{root}: no video found; known suffixes: {', '.join(sorted(SUFFIXES))}"
        )
    for before, after in pairwise(videos):
        if before.stem == after.stem:
            names = f"{before.name} and {after.name}"
            raise BadInputError(
                f"{root}: {names} would share a folder of frames; rename one of them"
            )
    return videos


def _track_beside(video: Path) -> Path | None:
    beside = (file for file in video.parent.iterdir() if file.stem == video.stem)
    tracks = sorted(
        file for file in beside if file.suffix.lower() in TRACK_SUFFIXES and file.is_file()
    )
    if len(tracks) > 1:
        raise BadInputError(
            f"{video}: found {' and '.join(file.name for file in tracks)}; choose one with --track"
        )
    return tracks[0] if tracks else None


def _scan(file: Path, found: Findings) -> _Video:
    """Read the packets without decoding them: fast, and enough to choose frames and to identify the
    video later.
    """
    digest = hashlib.sha256()
    ticks = set()
    with opened(file) as (container, stream):
        tick = Fraction(stream.time_base.numerator, stream.time_base.denominator)
        created = (
            container.metadata.get("creation_time") or stream.metadata.get("creation_time") or ""
        )
        declared = (
            float(stream.duration * tick) if stream.duration else (container.duration or 0) / 1e6
        )
        count = stream.frames or round(declared * float(stream.average_rate or 0))
        for packet in progress.track(container.demux(stream), f"reading {file.name}", count):
            if packet.size == 0 or packet.is_discard:
                continue
            if packet.pts is None:
                raise BadInputError(
                    f"{file}: a frame has no time stamp; repair the file or convert it to MP4"
                )
            ticks.add(packet.pts)
            digest.update(packet.pts.to_bytes(8, "big", signed=True) + bytes(packet))
    if not ticks:
        raise BadInputError(f"{file}: no frames; the file may be truncated")
    ordered = sorted(ticks)
    since_start = [round((one - ordered[0]) * tick * 10**9) for one in ordered]
    end = since_start[-1] / 1e9
    if declared - end > max(1.0, 0.02 * declared):
        item = f"{file.name} ends after {end:.1f} s, but declares {declared:.1f} s"
        found.note("videos seem to be truncated", [item])
    try:
        moment = nanoseconds(created)
    except ValueError:
        moment = None
    return _Video(file, ordered, tick, since_start, moment, digest.hexdigest())


def _extract(video: _Video, rows: Ints, folder: Path, found: Findings) -> Ints:
    """Write the frames of `rows` that are missing in the folder; return the rows whose frames exist
    afterwards.
    """
    files = {video.ticks[row]: folder / f"{video.names[row]}.jpg" for row in rows}
    if files:
        claim(folder / RECORD, {"sha256": video.fingerprint}, video.file)
    missing = {tick: file for tick, file in files.items() if not file.exists()}
    if missing:
        frames = _decode(video, missing.keys(), folder)
        for frame in progress.track(frames, f"frames of {video.file.name}", len(missing)):
            _save(frame, missing[frame.pts])
    exists = np.array([file.exists() for file in files.values()], dtype=bool)
    failed = (f"{video.file.stem}/{video.names[row]}" for row in rows[~exists])
    found.note("frames of a video could not be decoded (left out)", failed)
    kept: Ints = rows[exists]
    return kept


def _save(frame: Any, file: Path) -> None:
    # Both angles are counter-clockwise.
    image = frame.to_image().rotate(frame.rotation, expand=True)
    write_atomically(file, lambda stream: image.save(stream, "JPEG", quality=JPEG_QUALITY))


def _decode(video: _Video, wanted: Iterable[int], folder: Path) -> Iterator[Any]:
    """Yield the wanted frames in order; stops decoding after the last one."""
    left, before = set(wanted), None
    with opened(video.file) as (container, stream):
        stream.thread_type = "AUTO"
        frames = container.decode(stream)
        while left:
            try:
                frame = next(frames, None)
            except Exception as error:
                place = 0.0 if before is None else float((before - video.ticks[0]) * video.tick)
                problem = f"damaged or truncated {place:.1f} s after its start ({reason(error)})"
                raise BadInputError(
                    f"{video.file}: {problem}; the earlier frames are kept in {folder}"
                ) from None
            if frame is None or frame.pts is None:
                return
            if before is not None and frame.pts <= before:
                raise BadInputError(
                    f"{video.file}: time stamps are out of order; repair the file or convert it"
                    " to MP4"
                )
            before = frame.pts
            if frame.pts in left:
                left.remove(frame.pts)
                if not frame.is_corrupt:
                    yield frame
