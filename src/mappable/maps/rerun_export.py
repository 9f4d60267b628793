"""Export a run as a recording for the Rerun viewer: the map from above, and the result of each image."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from mappable.arrays import Floats, Pixels
from mappable.errors import BadImageError, BadInputError, install_extra
from mappable.files import check_writable, write_atomically
from mappable.maps.export import ellipse_shape
from mappable.maps.location import Location
from mappable.maps.run import LocatedRun
from mappable.places.images import Fit, Size, load_image
from mappable.places.pixels import Images
from mappable.places.table import NO_TIME, Places
from mappable.progress import track

SUFFIX = ".rrd"
IMAGE, TIME, LANDMARK = "image", "time", "landmark"  # names of the timelines
MOST_PICTURED = 1000  # a map of at most this many landmarks is written with all images; else only landmarks found
DEFAULT_SIZE: Size = (320, 240)  # width and height of images in pixels, if the map records no encoder
CIRCLE_POINTS, JPEG_QUALITY = 64, 85  # points on a circle; quality of JPEG images in percent
GRAY, WHITE, YELLOW = (150, 150, 150), (250, 250, 250), (220, 210, 90)
GREEN, ORANGE, BLUE, PURPLE = (60, 190, 90), (240, 150, 40), (80, 150, 250), (190, 100, 220)
SHOWN_NOW = [f"world/now/{name}" for name in ("estimate", "ellipse", "interval")]
SHOWN_NOW += [f"query/{name}" for name in ("image", "says", "location")]
PLOTS = {"error": BLUE, "distance": GREEN, "low": GRAY, "high": GRAY}


def check_rerun(file: Path) -> None:
    """Raise if `export_rerun` cannot or must not write this file."""
    if file.suffix != SUFFIX:
        raise BadInputError(f"{file}: the name of a Rerun recording must end in {SUFFIX}")
    check_writable(file)
    if find_spec("rerun") is None:
        raise BadInputError(f"recordings need rerun-sdk; {install_extra('rerun')}")


def export_rerun(file: Path, run: LocatedRun, images: Images | None = None) -> list[BadImageError]:
    """Write a recording atomically; return errors for images of landmarks that cannot be decoded, which it leaves out.

    `images` are the packed images of the run; without them, files are decoded. Both appear as the encoder sees them.
    """
    check_rerun(file)
    bad: list[BadImageError] = []
    write_atomically(file, lambda stream: bad.extend(_Recorder(run, images).record(Path(stream.name))))
    return bad


class _Recorder:
    """Writes a run into a recording. Entities below `now` change with the time that the viewer selects."""

    def __init__(self, run: LocatedRun, images: Images | None) -> None:
        import rerun

        self.rerun: Any = rerun
        self.run, self.images = run, images
        self.at = in_space(run.landmarks.places.positions)
        self.row_of = {str(name): row for row, name in enumerate(run.landmarks.places.place_id)}
        self.pictures: dict[int, Any] = {}  # images of landmarks, by row
        self.bad: list[BadImageError] = []
        about = run.landmarks.about
        self.size: Size = DEFAULT_SIZE if about is None else about.size
        self.fit: Fit = "pad" if about is None else about.fit
        self.timed = bool((run.places.time != NO_TIME).all())
        paths = {"truth": (run.truth, BLUE), "recovered": (run.recovered, PURPLE)}
        self.paths = {name: path for name, path in paths.items() if np.isfinite(path[0]).any()}
        self.stream: Any = rerun.RecordingStream("mappable", recording_id=uuid4())

    def record(self, file: Path) -> list[BadImageError]:
        self.stream.save(file, default_blueprint=self._blueprint())
        self.stream.set_log_tick_enabled(False)
        self.stream.set_log_time_enabled(False)
        self._log_lasting()
        for row in track(range(len(self.run.places)), "recording images", len(self.run.places)):
            self._log_query(row)
        self.stream.reset_time()
        rows = range(len(self.at)) if len(self.at) <= MOST_PICTURED else sorted(self.pictures)
        for row in track(rows, "recording landmarks", len(rows)):
            self.stream.set_time(LANDMARK, sequence=row)
            self._log_landmark(row)
        self.stream.flush()
        self.stream.disconnect()
        return self.bad

    def _show(self, entity: str, what: Any) -> None:
        """Show `what` from now on; None clears the entity."""
        self.stream.log(entity, self.rerun.Clear(recursive=False) if what is None else what)

    def _points(self, positions: Floats, colors: Any, radius: float, labels: Any = None) -> Any:
        return self.rerun.Points3D(positions, colors=colors, radii=-radius, labels=labels, show_labels=False)

    def _lines(self, strips: Sequence[Floats], color: Any, width: float) -> Any:
        return self.rerun.LineStrips3D(strips, colors=color, radii=-width)  # a negative radius is in pixels, not metres

    def _log_lasting(self) -> None:
        """Log what is visible at all times: landmarks, all estimates, and whole paths."""
        run, rerun = self.run, self.rerun
        colors = np.where(run.landmarks.estimated[:, None], YELLOW, GRAY)
        located = np.isfinite(run.estimates[:, 0])
        lasting = {
            "world": rerun.ViewCoordinates.RIGHT_HAND_Z_UP,
            "world/landmarks": self._points(self.at, colors, 3.0, run.landmarks.places.place_id),
            "world/estimates": self._points(
                in_space(run.estimates[located]),
                np.where(run.confident[located, None], GREEN, ORANGE),
                2.5,
                run.places.place_id[located],
            ),
        }
        for name, (positions, color) in self.paths.items():
            lasting[f"world/{name}"] = self._lines(_strips(positions, run.places), color, 1.0)
        for name, color in PLOTS.items():
            lasting[f"plots/{name}"] = rerun.SeriesLines(colors=color, names=name)
        for entity, what in lasting.items():
            self.stream.log(entity, what, static=True)

    def _log_query(self, row: int) -> None:
        one = self.run.found[row]
        self.stream.set_time(IMAGE, sequence=row)
        if self.timed:
            self.stream.set_time(TIME, timestamp=np.datetime64(int(self.run.places.time[row]), "ns"))
        for name, (positions, color) in self.paths.items():
            known = np.isfinite(positions[row]).all()
            self._show(f"world/now/{name}", self._points(in_space(positions[row]), color, 6.0) if known else None)
        if isinstance(one, Location):
            landmark, shown = self.row_of[one.landmark], self._located(row, one)
        else:
            landmark, shown = None, {"query/says": self.rerun.TextDocument(one.error)}
        shown["query/location"] = self.rerun.TextDocument(json.dumps(asdict(one)))  # all fields, for programs
        for entity in SHOWN_NOW:
            self._show(entity, shown.get(entity))
        for name in PLOTS:
            self.stream.log(f"plots/{name}", shown.get(f"plots/{name}", self.rerun.Scalars(np.nan)))  # NaN leaves a gap
        self._log_landmark(landmark)

    def _located(self, row: int, one: Location) -> dict[str, Any]:
        """What to show for a located image, by entity."""
        rerun, center = self.rerun, in_space(np.array(one.coordinates))
        color = GREEN if one.confident else ORANGE
        off = float(np.linalg.norm(one.coordinates - self.run.truth[row]))  # NaN if the truth is unknown
        numbers = {"error": off, "distance": one.distance, "low": one.low, "high": one.high}
        return {
            "world/now/estimate": self._points(center, color, 6.0, [one.image]),
            "world/now/ellipse": self._ellipse(one, center[0], color),
            "world/now/interval": self._interval(one),
            "query/image": self._query_picture(row),
            "query/says": rerun.TextDocument(_text(one, off)),
        } | {f"plots/{what}": rerun.Scalars(value) for what, value in numbers.items() if value is not None}

    def _log_landmark(self, row: int | None) -> None:
        self._show("world/now/landmark", None if row is None else self._points(self.at[[row]], WHITE, 5.0))
        self._show("landmark/image", None if row is None else self._landmark_picture(row))

    def _ellipse(self, one: Location, center: Floats, color: Any) -> Any:
        """Ellipse from above; see `ellipse_shape`."""
        shape = ellipse_shape(self.run.landmarks, one)
        return None if shape is None else self._lines([ring(center, shape)], color, 1.5)

    def _interval(self, one: Location) -> Any:
        """Two circles around the landmark; the image lies between them."""
        if one.low is None or one.high is None:
            return None
        center = self.at[self.row_of[one.landmark]]
        return self._lines([ring(center, radius * np.eye(2)) for radius in (one.low, one.high)], GRAY, 1.0)

    def _query_picture(self, row: int) -> Any:
        return self._picture(
            self._load(self.run.places, row) if self.images is None else self.images.read(np.array([row]))[0]
        )

    def _landmark_picture(self, row: int) -> Any:
        if row not in self.pictures:
            places = self.run.landmarks.places
            try:
                self.pictures[row] = self._picture(self._load(places, row))
            except BadImageError as error:
                self.bad.append(error)
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

        low, high = self.at.min(0), self.at.max(0)
        center, height = (low + high) / 2, max(float((high - low).max()), 1.0)
        eye = views.EyeControls3D(position=center + np.array([0, 0, height]), look_target=center, eye_up=(0, 1, 0))
        unit, name = self.run.landmarks.unit, self.run.landmarks.frame.name
        return views.Blueprint(
            views.Horizontal(
                views.Spatial3DView(origin="world", name=f"{name} ({unit})", eye_controls=eye),
                views.Vertical(
                    views.Horizontal(
                        views.Spatial2DView(origin="query/image", name="image"),
                        views.Spatial2DView(origin="landmark/image", name="landmark"),
                    ),
                    views.TextDocumentView(origin="query/says", name="what the map says"),
                    views.TimeSeriesView(
                        origin="plots", name=f"error, and distance to the landmark with its interval ({unit})"
                    ),
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


def _text(one: Location, off: float) -> str:
    """What the map says about an image, one fact per line."""
    lines = [one.image, "(" + ", ".join(f"{value:.2f}" for value in one.coordinates) + f") in {one.frame}"]
    if one.distance is not None and one.coverage is not None:
        interval = f"{one.low:.1f} to {one.high:.1f}, {100 * one.coverage:g} %"
        lines.append(f"{one.distance:.1f} {one.unit} from {one.landmark} ({interval})")
    lines.append("confident" if one.confident else one.reason)
    if np.isfinite(off):
        lines.append(f"error {off:.2f} {one.unit}")
    return "\n".join(lines)
