"""Videos with a GPS track: one frame every so many metres, placed by the track of the same name beside each video.

    ROOT/                       or ROOT may be one video
      drive.mp4                 also .mov, .m4v, .mkv, .webm, .avi, .mpg, .mpeg, .ts, .mts, .m2ts, .3gp, .wmv
      drive.gpx                 or drive.csv; or one track for all videos, named by the option `track`
      drive-frames/             written by this reader
        00012345.jpg            the frame 12.345 s after the first one
        video.json              which video the frames are of

A GPX file needs a time in every track point; several tracks and segments are joined by time. A CSV file has a column
`time` (ISO 8601, or a number since 1970 or since the start of the video; up to 11 digits are seconds), `latitude` and
`longitude` (or `lat` and `lon`) in degrees or `x` and `y` in metres, and optionally `altitude` or `z`, and `heading`
(degrees, clockwise from north) or `yaw` (radians, counter-clockwise from +x). Tracks in degrees share one UTM frame;
tracks in x and y share one frame, named after the folder.

Frames are chosen by the distance along the track, so that standing still adds none. A frame's time is its presentation
time, counted from when the video began: the option `start`, else `creation_time` of the file, else the first time of
the track. Some cameras write local time, or the end of the recording, as creation time: mend that with `offset_s`.
Frames outside the track, or where two of its points are further apart than `max_gap_s`, are noted and left out.

The chosen frames are written as JPEG files beside the video, or below the folder `frames`. Those already there are
kept, also after a run that was stopped; when none is missing, nothing is decoded. Each video is a sequence, named after
the file.
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
from mappable.arrays import Bools, Floats, Ints
from mappable.errors import BadInputError, MappableError
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
RECORD = "video.json"  # in a folder of frames: a checksum of the video's packets
FORMAT = Format("mappable frames", 1, "remove that folder")
JPEG_QUALITY = 95
LONGEST_OFFSET = 1e9  # seconds, thirty years: more is a slip


def read(
    root: Path,
    *,
    track: Annotated[Path | None, "one track for all videos (default: the one beside each)"] = None,
    spacing: Annotated[float, "distance between frames along the track, in its unit"] = 1.0,
    start: Annotated[str | None, "when each video began, ISO 8601 (default: what the file says)"] = None,
    offset_s: Annotated[float, "seconds to add to the time of each frame"] = 0.0,
    max_gap_s: Annotated[float, "most seconds between the two points that a frame lies between"] = 5.0,
    heading: Annotated[
        Literal["none", "course"],
        "yaw if the track has no heading: unknown, or the direction of motion (for a camera that looks forward)",
    ] = "none",
    frames: Annotated[
        Path | None,
        "folder for the frames (default: beside each video, in a folder named after it, such as drive-frames)",
    ] = None,
) -> Places:
    _require_pyav()
    _check_numbers(spacing, offset_s, max_gap_s)
    began = _parse_start(start)
    folder = root if root.is_dir() else root.parent
    pairs = [(video, track or _track_beside(video)) for video in _find_videos(root)]
    notes = [*warn("videos have no .gpx or .csv of the same name beside them", (v.name for v, t in pairs if not t))]
    points = {file: read_track(file) for file in dict.fromkeys(file for _, file in pairs if file)}
    notes += [note for one in points.values() for note in one.notes]
    tracks = dict(zip(points, in_frames(list(points.values()), folder.resolve().name), strict=True))
    tables = [Places(path=[], x=[], y=[], frames=(), root=frames or folder)]
    for file, track_file in pairs:
        if track_file is None:
            continue
        frame, route = tracks[track_file]
        video = _scan(file)
        time, clock_notes = _times(video, route, began, offset_s)
        rows, choice_notes = _choose(video, time, route, spacing, max_gap_s)
        images = frames / video.name if frames else file.with_name(f"{video.name}-frames")
        rows, damage_notes = _extract(video, rows, images)
        notes += [*video.notes, *clock_notes, *choice_notes, *damage_notes]
        if heading == "course" and np.isnan(route.yaw).all():
            tables.append(_table(video, rows, images, time, frame, route, course(route, time[rows], spacing / 2)))
        else:
            tables.append(_table(video, rows, images, time, frame, route, route.at(time[rows]).yaw))
    return concatenate(tables).noting(*merged(notes))


@dataclass(frozen=True)
class _Video:
    """What a video says of itself. `ticks` are its frames' presentation times in rising order, in units of `tick` s;
    `since_start` is the same in nanoseconds since the first frame, and `created` is when it began."""

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
        """What the frame's file is called: milliseconds since the first frame."""
        return f"{(self.since_start[row] + 500_000) // 1_000_000:08d}"


def _require_pyav() -> None:
    try:
        import av  # noqa: F401
    except ImportError:
        raise MappableError('reading videos needs PyAV: pip install "mappable[video]"') from None


def _check_numbers(spacing: float, offset_s: float, max_gap_s: float) -> None:
    for name, value in (("spacing", spacing), ("max_gap_s", max_gap_s)):
        if not 0 < value < math.inf:
            raise BadInputError(f"{name} is {value}, but must be a number above 0")
    if not abs(offset_s) <= LONGEST_OFFSET:
        raise BadInputError(f"offset_s is {offset_s}, but must be a number of seconds within thirty years")


def _parse_start(start: str | None) -> int | None:
    try:
        return None if start is None else nanoseconds(start)
    except ValueError:
        raise BadInputError(f"start {start!r} is not an ISO 8601 date and time") from None


def _find_videos(root: Path) -> list[Path]:
    if root.is_file():
        return [root]
    videos = sorted(file for file in root.iterdir() if file.suffix.lower() in SUFFIXES and file.is_file())
    videos = [file for file in videos if not file.name.startswith(".")]
    if not videos:
        raise BadInputError(f"{root}: no video here ({', '.join(sorted(SUFFIXES))})")
    for before, after in pairwise(videos):
        if before.stem == after.stem:
            raise BadInputError(f"{root}: {before.name} and {after.name} share a name, so their frames would too")
    return videos


def _track_beside(video: Path) -> Path | None:
    beside = (file for file in video.parent.iterdir() if file.stem == video.stem)
    found = sorted(file for file in beside if file.suffix.lower() in TRACK_SUFFIXES and file.is_file())
    if len(found) > 1:
        raise BadInputError(f"{video}: {' and '.join(file.name for file in found)} beside it; name one by option track")
    return found[0] if found else None


@contextmanager
def _opened(file: Path) -> Iterator[tuple[Any, Any]]:
    """The container and the video stream of a file, as PyAV has them; what it raises becomes a plain sentence."""
    import av

    try:
        try:
            opened = av.open(str(file), metadata_errors="replace")
        except TypeError:  # from version 19 on there is no such argument, and no need of it
            opened = av.open(str(file))
        with opened as container:
            if not container.streams.video:
                raise BadInputError(f"{file}: no video in it; it may be cut off")
            yield container, container.streams.video[0]
    except MappableError:
        raise
    except Exception as error:  # beside its own errors, damaged files make PyAV raise any other
        raise BadInputError(f"{file}: damaged, cut off or not a video ({_reason(error)})") from None


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _scan(file: Path) -> _Video:
    """Go through the packets without decoding them: cheap, and enough to choose frames and to know a video again."""
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
                raise BadInputError(f"{file}: a frame without a time stamp; repair it, or convert it to MP4")
            ticks.add(packet.pts)
            digest.update(packet.pts.to_bytes(8, "big", signed=True) + bytes(packet))
    if not ticks:
        raise BadInputError(f"{file}: no frames in it; it may be cut off")
    ordered = sorted(ticks)
    since_start = [round((one - ordered[0]) * tick * 10**9) for one in ordered]
    cut = []
    if declared - since_start[-1] / 1e9 > max(1.0, 0.02 * declared):
        cut = [f"{file.name} ends after {since_start[-1] / 1e9:.1f} s, though it says that it has {declared:.1f} s"]
    notes = warn("videos seem to be cut off", cut)
    return _Video(file, ordered, tick, since_start, _parse_created(created), digest.hexdigest(), notes)


def _parse_created(text: str) -> int | None:
    try:
        return nanoseconds(text)
    except ValueError:
        return None


def _times(video: _Video, route: Track, began: int | None, offset_s: float) -> tuple[Ints, tuple[Note, ...]]:
    """When each frame was taken (ns), by the best clock there is."""
    start = video.created if began is None else began
    notes: tuple[Note, ...] = ()
    if start is None:
        start = int(route.time[0])
        notes = warn("videos do not say when they began, so they begin with their track here", [video.file.name])
    shift = start + round(offset_s * 1e9)
    try:
        return np.array([shift + time for time in video.since_start], dtype=np.int64), notes
    except OverflowError:
        raise BadInputError(f"{video.file}: its times reach beyond the year 2262") from None


def _choose(video: _Video, time: Ints, route: Track, spacing: float, max_gap_s: float) -> tuple[Ints, tuple[Note, ...]]:
    """The rows of the frames to take: the first at or past each step of `spacing` along the track."""
    poses = route.at(time)
    in_gap = poses.inside & (poses.gap_s > max_gap_s)
    notes = warn("stretches of video lie outside their track (left out)", _stretches(video, time, ~poses.inside))
    gap = f"stretches of video lie where their track has a gap of more than {max_gap_s:g} s (left out)"
    notes += warn(gap, _stretches(video, time, in_gap))
    if not poses.inside.any():
        spans = f"the video ({_span(time)}) and its track ({_span(route.time)})"
        notes += (Note(f"{video.file.name}: {spans} do not overlap; see the options start and offset_s"),)
    # Files are named by milliseconds, so frames of one millisecond count as one.
    first_of_name = np.diff([int(video.frame_name(row)) for row in range(len(time))], prepend=-1) > 0
    usable = np.flatnonzero(poses.inside & ~in_gap & first_of_name)
    if len(usable) == 0:
        return usable, notes
    along = np.interp(time[usable] - route.time[0], route.time - route.time[0], arc_length(route, spacing / 2)[0])
    step = np.floor((along - along[0]) / spacing + 1e-6)  # what is a hair short of a step has reached it
    return usable[np.diff(step, prepend=-1) > 0], notes


def _stretches(video: _Video, time: Ints, mask: Bools) -> list[str]:
    """The runs of frames that `mask` marks, in words."""
    edges = np.flatnonzero(np.diff(mask.astype(np.int8), prepend=0, append=0))
    return [
        f"{video.file.name}: {end - begin:,} frames, {_span(time[begin:end])}"
        for begin, end in zip(edges[::2], edges[1::2], strict=True)
    ]


def _span(time: Ints) -> str:
    begin, end = np.datetime_as_string(time[[0, -1]].astype("datetime64[ns]"), unit="ms")
    return f"{begin}Z to {end}Z"


def _extract(video: _Video, rows: Ints, folder: Path) -> tuple[Ints, tuple[Note, ...]]:
    """Write the frames of `rows` that are not in the folder yet; the rows whose frames are there at the end."""
    files = {video.ticks[row]: folder / f"{video.frame_name(row)}.jpg" for row in rows}
    if files:
        _claim(folder, video)
    missing = {tick: file for tick, file in files.items() if not file.exists()}
    if missing:
        frames = progress.track(_decode(video, missing.keys(), folder), f"frames of {video.file.name}", len(missing))
        for frame in frames:
            _save(frame, missing[frame.pts])
    there = np.array([file.exists() for file in files.values()], dtype=bool)
    lost = [f"{video.name}/{video.frame_name(row)}" for row in rows[~there]]
    return rows[there], warn("frames of a video could not be decoded (left out)", lost)


def _save(frame: Any, file: Path) -> None:
    image = frame.to_image().rotate(frame.rotation, expand=True)  # both count the angle counter-clockwise
    write_atomically(file, lambda stream: image.save(stream, "JPEG", quality=JPEG_QUALITY))


def _claim(folder: Path, video: _Video) -> None:
    """Make the folder that video's own: frames of another one must never pass for its frames."""
    record, own = folder / RECORD, {"sha256": video.fingerprint}
    if record.is_file():
        if FORMAT.read(record) != own:
            raise BadInputError(f"{folder}: holds frames of another video than {video.file} is now; remove that folder")
    elif folder.exists() and any(not file.name.startswith(".") for file in folder.iterdir()):
        raise BadInputError(f"{folder}: holds other files, so no frames are written there; see the option frames")
    else:
        FORMAT.write(record, own)


def _decode(video: _Video, wanted: Iterable[int], folder: Path) -> Iterator[Any]:
    """The wanted frames in order, from one pass through the video that ends with the last of them."""
    left, before = set(wanted), None
    with _opened(video.file) as (container, stream):
        stream.thread_type = "AUTO"
        frames = container.decode(stream)
        while left:
            try:
                frame = next(frames, None)
            except Exception as error:
                place = 0.0 if before is None else float((before - video.ticks[0]) * video.tick)
                problem = f"damaged or cut off {place:.1f} s after its start ({_reason(error)})"
                raise BadInputError(f"{video.file}: {problem}; the frames before remain in {folder}") from None
            if frame is None or frame.pts is None:
                return
            if before is not None and frame.pts <= before:
                raise BadInputError(f"{video.file}: its time stamps are out of order; repair it, or convert it to MP4")
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
