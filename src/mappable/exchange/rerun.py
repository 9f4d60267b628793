"""A recording for the Rerun viewer: the map from above, and the result of each image."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from mappable.arrays import Floats
from mappable.errors import install_extra
from mappable.exchange.poses import Pose, Poses
from mappable.files import write_atomically
from mappable.places.images import Fit, Size, load_image
from mappable.progress import track

IMAGE, TIME = "image", "time"  # names of the timelines
# Width and height of images in pixels, if the map records no encoder.
DEFAULT_SIZE: Size = (320, 240)
CIRCLE_POINTS, JPEG_QUALITY = 64, 85  # points on a circle; quality of JPEG images in percent
GRAY, GREEN, ORANGE, BLUE = (150, 150, 150), (60, 190, 90), (240, 150, 40), (80, 150, 250)


def check_rerun(poses: Poses) -> str | None:
    """Why a recording cannot be written; None if it can."""
    return (
        None
        if poses.needed_map and find_spec("rerun")
        else f"recordings need rerun-sdk; {install_extra('rerun')}"
    )


def write_rerun(file: Path, poses: Poses) -> int:
    """Write landmarks, estimates and true positions; and per image its estimate, ellipse, picture
    and reason.
    """
    write_atomically(file, lambda stream: _record(poses, Path(stream.name)))
    return len(poses.located)


def _record(poses: Poses, file: Path) -> None:
    import rerun

    stream: Any = rerun.RecordingStream("mappable", recording_id=uuid4())
    stream.save(file)
    stream.set_log_tick_enabled(False)
    stream.set_log_time_enabled(False)
    located = [pose for _, pose in poses.located]
    stream.log("world", rerun.ViewCoordinates.RIGHT_HAND_Z_UP, static=True)
    _points(stream, "world/landmarks", poses.needed_map.places.positions, GRAY, 3.0)
    _points(
        stream,
        "world/estimates",
        np.array([pose.xyz for pose in located]),
        [_color(pose) for pose in located],
        3.0,
    )
    if poses.truth is not None:
        _points(stream, "world/truth", poses.truth[np.isfinite(poses.truth).all(axis=1)], BLUE, 3.0)
    for number in track(range(len(poses)), "recording images", len(poses)):
        pose = poses.poses[number]
        stream.set_time(IMAGE, sequence=number)
        if poses.timed:
            stream.set_time(TIME, timestamp=np.datetime64(poses.stamps[number], "ns"))
        stream.log(
            "query/says",
            rerun.TextDocument(f"{pose.name}\n{'trusted' if pose.trusted else pose.reason}"),
        )
        stream.log("world/now", rerun.Clear(recursive=True))
        if pose.position is not None:
            center = np.array(pose.xyz)
            stream.log(
                "world/now/estimate", rerun.Points3D(center[None], colors=_color(pose), radii=-6.0)
            )
            if pose.ellipse is not None:
                stream.log(
                    "world/now/ellipse",
                    rerun.LineStrips3D([ring(center, pose.ellipse)], colors=_color(pose)),
                )
            stream.log("query/image", _picture(poses, number))
    stream.flush()
    stream.disconnect()


def _points(stream: Any, entity: str, positions: Floats, colors: Any, radius: float) -> None:
    """Log points that stay; `radius` is in pixels."""
    import rerun

    if len(positions):
        stream.log(
            entity, rerun.Points3D(in_space(positions), colors=colors, radii=-radius), static=True
        )


def _color(pose: Pose) -> tuple[int, int, int]:
    return GREEN if pose.trusted else ORANGE


def _picture(poses: Poses, number: int) -> Any:
    import rerun
    import simplejpeg

    about = poses.needed_map.about
    if poses.images is not None:
        pixels = poses.images.read(np.array([number]))[0]
    elif poses.places is not None:
        size = DEFAULT_SIZE if about is None else about.size
        fit: Fit = "pad" if about is None else about.fit
        pixels = load_image(poses.places.files[number], size, fit, poses.places.decoding)
    else:
        return rerun.Clear(recursive=False)
    content = simplejpeg.encode_jpeg(np.ascontiguousarray(pixels), quality=JPEG_QUALITY)
    return rerun.EncodedImage(contents=content, media_type="image/jpeg")


def in_space(positions: Floats) -> Floats:
    """Positions (k,) or (n, k) as (n, 3); missing coordinates become 0."""
    flat = np.atleast_2d(positions)
    return np.pad(flat, ((0, 0), (0, 3 - flat.shape[1])))


def ring(center: Floats, shape: Floats) -> Floats:
    """A closed line (n, 3) around a point (3,): the unit circle, transformed by a matrix (2, 2)."""
    angles = np.linspace(0.0, 2 * np.pi, CIRCLE_POINTS + 1)
    return center + in_space(np.column_stack([np.cos(angles), np.sin(angles)]) @ shape.T)
