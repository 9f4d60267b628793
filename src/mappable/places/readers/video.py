"""Videos with a GPS track: frames at a fixed distance along the track that has the same name as the video.

    ROOT/                       or ROOT may be one video
      drive.mp4                 also .mov, .m4v, .mkv, .webm, .avi, .mpg, .mpeg, .ts, .mts, .m2ts, .3gp, .wmv
      drive.gpx                 or drive.csv; or one track for all videos (`--track`)
      drive-frames/             written by this reader
        00012345.jpg            the frame 12.345 s after the first frame
        video.json              identifies the video of the frames

Tracks:

- A GPX file needs a time in every track point. Several tracks and segments in one file are joined by time.
- A CSV file has a column `time`: ISO 8601, or a number since 1970 or since the start of the video. Numbers of up to 11
  digits are seconds.
- A CSV file also has `latitude` and `longitude` (or `lat` and `lon`) in degrees, or `x` and `y` in metres. Optional
  columns are `altitude` or `z`, and `heading` (degrees, clockwise from north) or `yaw` (radians, counter-clockwise from
  +x).
- Tracks in degrees share one UTM frame. Tracks in x and y share one frame with the name of the folder.

Frames are chosen by the distance along the track, so a standing camera adds no frames. The time of a frame is its
presentation time plus the start of the video. `--start` gives the start. Without it, the start is `creation_time` of
the file, or else the first time of the track. Some cameras write local time, or the end of the recording, as creation
time. Correct that with `--offset-s`. The reader leaves out and lists frames outside the track, and frames between two
track points more than `--max-gap-s` apart.

The reader writes the chosen frames as JPEG files next to the video, or below the folder `--frames`. It keeps existing
frames, also those of an interrupted run. If no frame is missing, it decodes nothing. Each video is a sequence with the
name of the file.
"""

import hashlib
import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from mappable import progress
from mappable.arrays import Bools, Floats, Ints, Pixels
from mappable.errors import BadInputError, MappableError, install_extra
from mappable.files import write_atomically
from mappable.formats import Format
from mappable.places.frames import Frame
from mappable.places.gpx import in_frames, read_track
from mappable.places.joining import concatenate
from mappable.places.notes import Note, merged, warn
from mappable.places.table import Places
from mappable.places.tracks import Track, arc_length, course
from mappable.times import nanoseconds

SUFFIXES = frozenset(
    (".mp4", ".mov", ".m4v", ".mkv", ".webm", ".avi", ".mpg", ".mpeg", ".ts", ".mts", ".m2ts", ".3gp", ".wmv")
)
TRACK_SUFFIXES = (".gpx", ".csv")
RECORD = "video.json"  # in a folder of frames: holds a checksum of the packets of the video
FORMAT = Format("mappable frames", 2, "remove that folder", sealed_since=2, earliest=1)
JPEG_QUALITY = 95
LONGEST_OFFSET = 1e9  # seconds, about thirty years; a larger offset is a mistake


def read(
    root: Path,
    *,
    track: Annotated[Path | None, "one track for all videos (default: the track next to each video)"] = None,
    spacing: Annotated[float, "distance between frames along the track, in the unit of the track"] = 1.0,
    start: Annotated[str | None, "start time of each video, ISO 8601 (default: creation_time of the file)"] = None,
    offset_s: Annotated[float, "seconds to add to the time of each frame"] = 0.0,
    max_gap_s: Annotated[float, "largest time in seconds between the track points before and after a frame"] = 5.0,
    heading: Annotated[
        Literal["none", "course"],
        "yaw, if the track has no heading: unknown, or the direction of travel (for a camera that looks forward)",
    ] = "none",
    frames: Annotated[
        Path | None,
        "folder for the frames (default: a folder such as drive-frames next to each video)",
    ] = None,
) -> Places:
    _require_pyav()
    _check_numbers(spacing, offset_s, max_gap_s)
    start_time = _parse_start(start)
    folder = root if root.is_dir() else root.parent
    pairs = [(video, track or _track_beside(video)) for video in _find_videos(root)]
    notes = [*warn("videos have no .gpx or .csv of the same name next to them", (v.name for v, t in pairs if not t))]
    points = {file: read_track(file) for file in dict.fromkeys(file for _, file in pairs if file)}
    notes += [note for one in points.values() for note in one.notes]
    tracks = dict(zip(points, in_frames(list(points.values()), folder.resolve().name), strict=True))
    tables = [Places(path=[], x=[], y=[], frames=(), root=frames or folder)]
    for file, track_file in pairs:
        if track_file is None:
            continue
        frame, route = tracks[track_file]
        video = _scan(file)
        time, clock_notes = _times(video, route, start_time, offset_s)
        rows, choice_notes = _choose(video, time, route, spacing, max_gap_s)
        images = frames / video.name if frames else file.with_name(f"{video.name}-frames")
        rows, damage_notes = _extract(video, rows, images)
        notes += [*video.notes, *clock_notes, *choice_notes, *damage_notes]
        if heading == "course" and np.isnan(route.yaw).all():
            tables.append(_table(video, rows, images, time, frame, route, course(route, time[rows], spacing / 2)))
        else:
            tables.append(_table(video, rows, images, time, frame, route, route.at(time[rows]).yaw))
    return concatenate(tables).noting(*merged(notes))


def play(file: Path) -> Iterator[tuple[float, Pixels]]:
    """All frames of a video, in order: seconds since the first frame, and pixels (height, width, 3)."""
    _require_pyav()
    first, before = None, -math.inf
    with _opened(file) as (container, stream):
        stream.thread_type = "AUTO"
        frames = container.decode(stream)
        while True:
            try:
                frame = next(frames, None)
            except Exception as error:
                raise BadInputError(
                    f"{file}: damaged or truncated after {max(before, 0.0):.1f} s ({_reason(error)})"
                ) from None
            if frame is None:
                return
            if frame.time is None or frame.is_corrupt:
                continue
            first = frame.time if first is None else first
            if frame.time - first > before:
                before = frame.time - first
                yield before, np.asarray(frame.to_image().rotate(frame.rotation, expand=True))


@dataclass(frozen=True)
class _Video:
    """One video. `ticks` are the presentation times of its frames in rising order, in units of `tick` seconds.

    `since_start` has the same times in ns since the first frame. `created` is the start of the video (ns), if known.
    """

    file: Path
    ticks: list[int]
    tick: Fraction
    since_start: list[int]
    created: int | None
    fingerprint: str
    notes: tuple[Note, ...]

    @property
    def name(self) -> str:
        return self.file.stem

    def frame_name(self, row: int) -> str:
        """The name of the file of a frame: milliseconds since the first frame."""
        return f"{(self.since_start[row] + 500_000) // 1_000_000:08d}"


def _require_pyav() -> None:
    try:
        import av  # noqa: F401
    except ImportError:
        raise MappableError(f"videos need PyAV; {install_extra('video')}") from None


def _check_numbers(spacing: float, offset_s: float, max_gap_s: float) -> None:
    for name, value in (("spacing", spacing), ("max_gap_s", max_gap_s)):
        if not 0 < value < math.inf:
            raise BadInputError(f"{name} is {value}, expected a number above 0")
    if not abs(offset_s) <= LONGEST_OFFSET:
        raise BadInputError(f"offset_s is {offset_s}, expected seconds, at most thirty years")


def _parse_start(start: str | None) -> int | None:
    try:
        return None if start is None else nanoseconds(start)
    except ValueError:
        raise BadInputError(f"start is {start!r}, expected an ISO 8601 date and time") from None


def _find_videos(root: Path) -> list[Path]:
    if root.is_file():
        return [root]
    videos = sorted(file for file in root.iterdir() if file.suffix.lower() in SUFFIXES and file.is_file())
    videos = [file for file in videos if not file.name.startswith(".")]
    if not videos:
        raise BadInputError(f"{root}: no video found; known suffixes: {', '.join(sorted(SUFFIXES))}")
    for before, after in pairwise(videos):
        if before.stem == after.stem:
            raise BadInputError(
                f"{root}: {before.name} and {after.name} would share a folder of frames; rename one of them"
            )
    return videos


def _track_beside(video: Path) -> Path | None:
    beside = (file for file in video.parent.iterdir() if file.stem == video.stem)
    found = sorted(file for file in beside if file.suffix.lower() in TRACK_SUFFIXES and file.is_file())
    if len(found) > 1:
        raise BadInputError(
            f"{video}: found {' and '.join(file.name for file in found)}; choose one with the option track"
        )
    return found[0] if found else None


@contextmanager
def _opened(file: Path) -> Iterator[tuple[Any, Any]]:
    """The PyAV container and video stream of a file; every exception of PyAV becomes a BadInputError."""
    import av

    try:
        try:
            opened = av.open(str(file), metadata_errors="replace")
        except TypeError:  # PyAV 19 removed this argument, and does not need it
            opened = av.open(str(file))
        with opened as container:
            if not container.streams.video:
                raise BadInputError(f"{file}: no video stream; the file may be truncated")
            yield container, container.streams.video[0]
    except MappableError:
        raise
    except Exception as error:  # a damaged file can make PyAV raise almost any exception
        raise BadInputError(f"{file}: damaged, truncated or not a video ({_reason(error)})") from None


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _scan(file: Path) -> _Video:
    """Read the packets without decoding them: fast, and enough to choose frames and to identify the video later."""
    digest = hashlib.sha256()
    ticks = set()
    with _opened(file) as (container, stream):
        tick = Fraction(stream.time_base.numerator, stream.time_base.denominator)
        created = container.metadata.get("creation_time") or stream.metadata.get("creation_time") or ""
        declared = float(stream.duration * tick) if stream.duration else (container.duration or 0) / 1e6
        count = stream.frames or round(declared * float(stream.average_rate or 0))
        for packet in progress.track(container.demux(stream), f"reading {file.name}", count):
            if packet.size == 0 or packet.is_discard:
                continue
            if packet.pts is None:
                raise BadInputError(f"{file}: a frame has no time stamp; repair the file or convert it to MP4")
            ticks.add(packet.pts)
            digest.update(packet.pts.to_bytes(8, "big", signed=True) + bytes(packet))
    if not ticks:
        raise BadInputError(f"{file}: no frames; the file may be truncated")
    ordered = sorted(ticks)
    since_start = [round((one - ordered[0]) * tick * 10**9) for one in ordered]
    truncated = []
    if declared - since_start[-1] / 1e9 > max(1.0, 0.02 * declared):
        truncated = [f"{file.name} ends after {since_start[-1] / 1e9:.1f} s, but declares {declared:.1f} s"]
    notes = warn("videos seem to be truncated", truncated)
    return _Video(file, ordered, tick, since_start, _parse_created(created), digest.hexdigest(), notes)


def _parse_created(text: str) -> int | None:
    try:
        return nanoseconds(text)
    except ValueError:
        return None


def _times(video: _Video, route: Track, start: int | None, offset_s: float) -> tuple[Ints, tuple[Note, ...]]:
    """The time of each frame (ns), from the best clock that is available."""
    start = video.created if start is None else start
    notes: tuple[Note, ...] = ()
    if start is None:
        start = int(route.time[0])
        notes = warn(
            "videos have no start time; their first frame gets the first time of their track", [video.file.name]
        )
    shift = start + round(offset_s * 1e9)
    try:
        return np.array([shift + time for time in video.since_start], dtype=np.int64), notes
    except OverflowError:
        raise BadInputError(
            f"{video.file}: the times of its frames go beyond the year 2262; check start and offset_s"
        ) from None


def _choose(video: _Video, time: Ints, route: Track, spacing: float, max_gap_s: float) -> tuple[Ints, tuple[Note, ...]]:
    """The rows of the chosen frames: the first frame at or after each step of `spacing` along the track."""
    poses = route.at(time)
    in_gap = poses.inside & (poses.gap_s > max_gap_s)
    notes = warn("parts of videos are outside their track (left out)", _stretches(video, time, ~poses.inside))
    gap = f"parts of videos are in a gap of more than {max_gap_s:g} s in their track (left out)"
    notes += warn(gap, _stretches(video, time, in_gap))
    if not poses.inside.any():
        spans = f"the video ({_span(time)}) and its track ({_span(route.time)})"
        notes += (Note(f"{video.file.name}: {spans} do not overlap; set the option start or offset_s"),)
    # Files are named by milliseconds, so only one frame per millisecond is kept.
    first_of_name = np.diff([int(video.frame_name(row)) for row in range(len(time))], prepend=-1) > 0
    usable = np.flatnonzero(poses.inside & ~in_gap & first_of_name)
    if len(usable) == 0:
        return usable, notes
    along = np.interp(time[usable] - route.time[0], route.time - route.time[0], arc_length(route, spacing / 2)[0])
    step = np.floor((along - along[0]) / spacing + 1e-6)  # the tolerance counts a frame that is just short of a step
    return usable[np.diff(step, prepend=-1) > 0], notes


def _stretches(video: _Video, time: Ints, mask: Bools) -> list[str]:
    """One line of text for each run of frames in which `mask` is True."""
    edges = np.flatnonzero(np.diff(mask.astype(np.int8), prepend=0, append=0))
    return [
        f"{video.file.name}: {end - begin:,} frames, {_span(time[begin:end])}"
        for begin, end in zip(edges[::2], edges[1::2], strict=True)
    ]


def _span(time: Ints) -> str:
    begin, end = np.datetime_as_string(time[[0, -1]].astype("datetime64[ns]"), unit="ms")
    return f"{begin}Z to {end}Z"


def _extract(video: _Video, rows: Ints, folder: Path) -> tuple[Ints, tuple[Note, ...]]:
    """Write the frames of `rows` that are missing in the folder; return the rows whose frames exist afterwards."""
    files = {video.ticks[row]: folder / f"{video.frame_name(row)}.jpg" for row in rows}
    if files:
        _claim(folder, video)
    missing = {tick: file for tick, file in files.items() if not file.exists()}
    if missing:
        frames = progress.track(_decode(video, missing.keys(), folder), f"frames of {video.file.name}", len(missing))
        for frame in frames:
            _save(frame, missing[frame.pts])
    exists = np.array([file.exists() for file in files.values()], dtype=bool)
    failed = [f"{video.name}/{video.frame_name(row)}" for row in rows[~exists]]
    return rows[exists], warn("frames of a video could not be decoded (left out)", failed)


def _save(frame: Any, file: Path) -> None:
    image = frame.to_image().rotate(frame.rotation, expand=True)  # both angles are counter-clockwise
    write_atomically(file, lambda stream: image.save(stream, "JPEG", quality=JPEG_QUALITY))


def _claim(folder: Path, video: _Video) -> None:
    """Reserve the folder for this video, so that frames of two videos never mix."""
    record, own = folder / RECORD, {"sha256": video.fingerprint}
    if record.is_file():
        if FORMAT.read(record) != own:
            raise BadInputError(f"{folder}: holds frames of a video other than {video.file}; remove this folder")
    elif folder.exists() and any(not file.name.startswith(".") for file in folder.iterdir()):
        raise BadInputError(f"{folder}: holds other files; choose another folder with the option frames")
    else:
        FORMAT.write(record, own)


def _decode(video: _Video, wanted: Iterable[int], folder: Path) -> Iterator[Any]:
    """Yield the wanted frames in order; stops decoding after the last one."""
    left, before = set(wanted), None
    with _opened(video.file) as (container, stream):
        stream.thread_type = "AUTO"
        frames = container.decode(stream)
        while left:
            try:
                frame = next(frames, None)
            except Exception as error:
                place = 0.0 if before is None else float((before - video.ticks[0]) * video.tick)
                problem = f"damaged or truncated {place:.1f} s after its start ({_reason(error)})"
                raise BadInputError(f"{video.file}: {problem}; the earlier frames are kept in {folder}") from None
            if frame is None or frame.pts is None:
                return
            if before is not None and frame.pts <= before:
                raise BadInputError(f"{video.file}: time stamps are out of order; repair the file or convert it to MP4")
            before = frame.pts
            if frame.pts in left:
                left.remove(frame.pts)
                if not frame.is_corrupt:
                    yield frame


def _table(video: _Video, rows: Ints, images: Path, time: Ints, frame: Frame, route: Track, yaw: Floats) -> Places:
    poses = route.at(time[rows])
    names = [video.frame_name(row) for row in rows]
    return Places(
        path=[f"{images.name}/{name}.jpg" for name in names],
        place_id=[f"{video.name}/{name}" for name in names],
        x=poses.xyz[:, 0],
        y=poses.xyz[:, 1],
        z=poses.xyz[:, 2],
        yaw=yaw,
        time=time[rows],
        sequence=video.name,
        frames=frame,
        root=images.parent,
    )
