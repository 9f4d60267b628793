"""A recording for the Rerun viewer: the map from above, and the result of each image."""

import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from mappable.arrays import Floats, Pixels
from mappable.errors import BadImageError, install_extra
from mappable.exchange.poses import Pose, Poses
from mappable.files import write_atomically
from mappable.maps.choosing import spacing_of
from mappable.places.images import Fit, Size, load_image
from mappable.places.table import Places
from mappable.progress import track

IMAGE, TIME = "image", "time"  # names of the timelines
DEFAULT_SIZE: Size = (320, 240)  # width and height of images in pixels, if the map records no encoder
CIRCLE_POINTS, JPEG_QUALITY = 64, 85  # points on a circle; quality of JPEG images in percent
ARROW = 2.0  # length of the arrow of the heading, in spacings of the landmarks
LEAST_RADIUS, MORE_RADIUS = 3.0, 9.0  # pixels: of a possible place with probability 0, and what probability 1 adds
GRAY, WHITE, YELLOW = (150, 150, 150), (250, 250, 250), (220, 210, 90)
GREEN, ORANGE, BLUE = (60, 190, 90), (240, 150, 40), (80, 150, 250)
PLOTS = {"error": BLUE, "distance": GREEN, "low": GRAY, "high": GRAY, "on_map": ORANGE}
SHOWN_NOW = ("estimate", "ellipse", "interval", "heading", "places", "landmark", "truth")  # below world/now


def check_rerun(poses: Poses) -> str | None:
    """Why a recording cannot be written; None if it can."""
    return None if poses.needed_map and find_spec("rerun") else f"recordings need rerun-sdk; {install_extra('rerun')}"


def write_rerun(file: Path, poses: Poses) -> int:
    """Write a recording. It lacks the pictures of landmarks that cannot be decoded."""
    write_atomically(file, lambda stream: Recorder(poses).record(Path(stream.name)))
    return len(poses.located)


class Recorder:
    """Writes poses into a recording. Entities below `now` change with the time that the viewer selects."""

    def __init__(self, poses: Poses) -> None:
        import rerun

        self.rerun: Any = rerun
        self.poses, self.landmarks = poses, poses.needed_map
        landmarks = self.landmarks
        self.positions = in_space(landmarks.places.positions)
        self.row_of = {str(name): row for row, name in enumerate(landmarks.places.place_id)}
        self.arrow = ARROW * spacing_of(landmarks.places.positions)
        about = landmarks.about
        self.size: Size = DEFAULT_SIZE if about is None else about.size
        self.fit: Fit = "pad" if about is None else about.fit
        self.pictures: dict[int, Any] = {}  # of landmarks, by row
        self.stream: Any = rerun.RecordingStream("mappable", recording_id=uuid4())

    def record(self, file: Path) -> None:
        self.stream.save(file, default_blueprint=self._blueprint())
        self.stream.set_log_tick_enabled(False)
        self.stream.set_log_time_enabled(False)
        for entity, shown in self._lasting().items():
            self.stream.log(entity, shown, static=True)
        count = len(self.poses)
        for number in track(range(count), "recording images", count):
            self.stream.set_time(IMAGE, sequence=number)
            if self.poses.timed:
                self.stream.set_time(TIME, timestamp=np.datetime64(self.poses.stamps[number], "ns"))
            self._log(number, self.poses.poses[number])
        self.stream.flush()
        self.stream.disconnect()

    def _lasting(self) -> dict[str, Any]:
        """What is visible at all times: landmarks, all estimates, and the true path."""
        landmarks, rerun = self.landmarks, self.rerun
        located = [pose for _, pose in self.poses.located]
        lasting = {
            "world": rerun.ViewCoordinates.RIGHT_HAND_Z_UP,
            "world/landmarks": self._points(
                self.positions,
                np.where(landmarks.estimated[:, None], YELLOW, GRAY),
                LEAST_RADIUS,
                landmarks.places.place_id,
            ),
            "world/estimates": self._points(
                np.array([pose.xyz for pose in located]).reshape(-1, 3),
                [GREEN if pose.trusted else ORANGE for pose in located],
                LEAST_RADIUS,
                [pose.name for pose in located],
            ),
        }
        if self.poses.truth is not None and self.poses.places is not None and np.isfinite(self.poses.truth).any():
            lasting["world/truth"] = self._lines(_strips(self.poses.truth, self.poses.places), BLUE, 1.0)
        for name, color in PLOTS.items():
            lasting[f"plots/{name}"] = rerun.SeriesLines(colors=color, names=name)
        return lasting

    def _log(self, number: int, pose: Pose) -> None:
        record, text = pose.record, self.rerun.TextDocument
        error = np.nan
        truth = None if self.poses.truth is None else self.poses.truth[number]
        if truth is not None and pose.position is not None:
            error = float(np.linalg.norm(np.array(pose.position) - truth))
        shown = {f"world/now/{name}": None for name in SHOWN_NOW}
        shown |= {"query/image": None, "landmark/image": None}
        shown |= {"query/says": text(_text(pose, error)), "query/record": text(json.dumps(record))}
        shown |= self._located(number, pose) if pose.position is not None else {}
        if truth is not None and np.isfinite(truth).all():
            shown["world/now/truth"] = self._points(in_space(truth), BLUE, 6.0)
        for entity, value in shown.items():
            self.stream.log(entity, self.rerun.Clear(recursive=False) if value is None else value)
        for name in PLOTS:
            number_shown = error if name == "error" else record.get(name)
            self.stream.log(f"plots/{name}", self.rerun.Scalars(np.nan if number_shown is None else number_shown))

    def _located(self, number: int, pose: Pose) -> dict[str, Any]:
        """What to show for a located image, by entity."""
        rerun, center, color = self.rerun, np.array([pose.xyz]), GREEN if pose.trusted else ORANGE
        row, record = self.row_of[pose.record["landmark"]], pose.record
        shown = {
            "world/now/estimate": self._points(center, color, 6.0, [pose.name]),
            "world/now/landmark": self._points(self.positions[[row]], WHITE, 5.0),
            "query/image": self._query_picture(number),
            "landmark/image": self._landmark_picture(row),
        }
        if pose.ellipse is not None:
            shown["world/now/ellipse"] = self._lines([ring(center[0], pose.ellipse)], color, 1.5)
        if record.get("low") is not None:  # the image lies between two circles around the landmark
            circles = [ring(self.positions[row], record[end] * np.eye(2)) for end in ("low", "high")]
            shown["world/now/interval"] = self._lines(circles, GRAY, 1.0)
        if pose.heading is not None:
            toward = self.arrow * np.array([[np.cos(pose.heading), np.sin(pose.heading), 0.0]])
            shown["world/now/heading"] = rerun.Arrows3D(origins=center, vectors=toward, colors=color)
        if places := record.get("places"):
            radii = [-(LEAST_RADIUS + MORE_RADIUS * place["probability"]) for place in places]
            labels = [f"{place['landmark']}: {place['probability']:.2f}" for place in places]
            positions = in_space(np.array([place["position"] for place in places]))
            shown["world/now/places"] = rerun.Points3D(
                positions, colors=BLUE, radii=radii, labels=labels, show_labels=False
            )
        return shown

    def _points(self, positions: Floats, colors: Any, radius: float, labels: Any = None) -> Any:
        return self.rerun.Points3D(positions, colors=colors, radii=-radius, labels=labels, show_labels=False)

    def _lines(self, strips: Sequence[Floats], color: Any, width: float) -> Any:
        return self.rerun.LineStrips3D(strips, colors=color, radii=-width)  # a negative radius is in pixels, not metres

    def _query_picture(self, number: int) -> Any:
        if self.poses.images is not None:
            return self._picture(self.poses.images.read(np.array([number]))[0])
        return None if self.poses.places is None else self._picture(self._load(self.poses.places, number))

    def _landmark_picture(self, row: int) -> Any:
        if row not in self.pictures:
            try:
                self.pictures[row] = self._picture(self._load(self.landmarks.places, row))
            except BadImageError:
                self.pictures[row] = None
        return self.pictures[row]

    def _load(self, places: Places, row: int) -> Pixels:
        return load_image(places.root / places.path[row], self.size, self.fit, places.decoding)

    def _picture(self, pixels: Pixels) -> Any:
        import simplejpeg

        content = simplejpeg.encode_jpeg(np.ascontiguousarray(pixels), quality=JPEG_QUALITY)
        return self.rerun.EncodedImage(contents=content, media_type="image/jpeg")

    def _blueprint(self) -> Any:
        """The layout of the viewer: the map from above, the image and its landmark, the result as text, and plots."""
        import rerun.blueprint as views

        low, high = self.positions.min(0), self.positions.max(0)
        center, height = (low + high) / 2, max(float((high - low).max()), 1.0)
        eye = views.EyeControls3D(position=center + np.array([0, 0, height]), look_target=center, eye_up=(0, 1, 0))
        unit, name = self.landmarks.unit, self.landmarks.frame.name
        return views.Blueprint(
            views.Horizontal(
                views.Spatial3DView(origin="world", name=f"{name} ({unit})", eye_controls=eye),
                views.Vertical(
                    views.Horizontal(
                        views.Spatial2DView(origin="query/image", name="image"),
                        views.Spatial2DView(origin="landmark/image", name="landmark"),
                    ),
                    views.TextDocumentView(origin="query/says", name="what the map says"),
                    views.TimeSeriesView(origin="plots", name=f"error, and distance to the landmark ({unit})"),
                    row_shares=[3, 1.3, 2],
                ),
                column_shares=[3, 2],
            ),
            views.TimePanel(timeline=IMAGE, fps=2.0, play_state="paused", state="collapsed"),
            collapse_panels=True,
        )


def in_space(positions: Floats) -> Floats:
    """Positions (k,) or (n, k) as (n, 3); missing coordinates become 0."""
    flat = np.atleast_2d(positions)
    return np.pad(flat, ((0, 0), (0, 3 - flat.shape[1])))


def _strips(positions: Floats, places: Places) -> list[Floats]:
    """The known positions of each sequence, as one line each."""
    known = np.asarray(np.isfinite(positions).all(axis=1))
    paths = (rows[known[rows]] for rows in places.sequences().values())
    return [in_space(positions[rows]) for rows in paths if len(rows)]


def ring(center: Floats, shape: Floats) -> Floats:
    """A closed line (n, 3) around a point (3,): the unit circle, transformed by a matrix (2, 2)."""
    angles = np.linspace(0.0, 2 * np.pi, CIRCLE_POINTS + 1)
    return center + in_space(np.column_stack([np.cos(angles), np.sin(angles)]) @ shape.T)


def _text(pose: Pose, error: float) -> str:
    """What the map says about an image, one fact per line."""
    record = pose.record
    lines = [pose.name, record.get("state", "")]
    if pose.position is not None:
        lines.append("(" + ", ".join(f"{value:.2f}" for value in pose.position) + f") in {record['frame']}")
    if record.get("low") is not None:
        interval = f"{record['low']:.1f} to {record['high']:.1f}, {100 * record['coverage']:g} %"
        lines.append(f"{record['distance']:.1f} {record['unit']} from {record['landmark']} ({interval})")
    lines.append("trusted" if pose.trusted else pose.reason)
    if np.isfinite(error):
        lines.append(f"error {error:.2f} {record['unit']}")
    return "\n".join(line for line in lines if line)
