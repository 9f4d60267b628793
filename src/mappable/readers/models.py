"""Models of cameras from images (COLMAP, NeRF): gravity from the cameras, ground from points, scale only if known."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from scipy.spatial import cKDTree

from mappable.arrays import Floats, Ints
from mappable.errors import BadInputError, listed
from mappable.places.frames import Frame, Unit, Vector, frame_from_latlon
from mappable.places.notes import Findings
from mappable.places.rotations import viewing_yaw
from mappable.places.table import Places
from mappable.readers import columns
from mappable.tables import Table, read_table, read_words

Up = Literal["estimate", "x", "y", "z", "-x", "-y", "-z"]
OPENGL = np.array([1.0, -1.0, -1.0])  # signs of the axes of a camera, from OpenGL (y up, z backward) to ours
FEWEST_TURNS = 0.01  # variance of the x axes in the horizontal plane; below (about 6 degrees), cameras look one way
LARGE_TILT = 10.0  # degrees between a camera's horizon and the plane; above it, the estimate is doubtful
APART = 1e-6  # least distance of known images, as a share of the size of the model
LAYER = 0.1  # thickness of the ground, as a share of the height of the cameras above it
CLEAR_GROUND = 0.2  # share of the points below their nearest camera that make a clear ground
FEWEST_POINTS = 50  # below the cameras; fewer show no ground


@dataclass(frozen=True)
class CameraModel:
    """Cameras in coordinates of unknown scale and direction: centers (n, 3) and axes (n, 3, 3) from camera to model.

    A camera has x to the right, y down and z forward. `names` are those of the images.
    """

    names: list[str]
    centers: Floats
    axes: Floats

    @classmethod
    def from_world(cls, names: list[str], turns: Floats, shifts: Floats) -> "CameraModel":
        """Cameras by the rotations (n, 3, 3) and translations (n, 3) from model to camera."""
        axes = turns.transpose(0, 2, 1)
        return cls(names, -np.einsum("nij,nj->ni", axes, shifts), axes)

    @classmethod
    def joined(cls, parts: Sequence["CameraModel"]) -> "CameraModel":
        """The cameras of several models in the same coordinates."""
        centers, axes = (np.concatenate([getattr(part, name) for part in parts]) for name in ("centers", "axes"))
        return cls([name for part in parts for name in part.names], centers, axes)

    def in_order(self) -> "CameraModel":
        """The same cameras, sorted by name."""
        order = np.array(sorted(range(len(self.names)), key=lambda row: self.names[row]), dtype=np.int64)
        return CameraModel([self.names[row] for row in order], self.centers[order], self.axes[order])


@dataclass(frozen=True)
class PlacedModel:
    """The cameras in a frame: positions (n, 3) in the unit of the frame, and yaws (n,)."""

    frame: Frame
    xyz: Floats
    yaw: Floats

    def places(self, path: Sequence[str], **columns: Any) -> Places:
        """The table of the images, with these other columns."""
        x, y, z = self.xyz.T
        return Places(path=path, x=x, y=y, z=z, yaw=self.yaw, frames=self.frame, **columns)


def place_model(
    model: CameraModel,
    name: str,
    found: Findings,
    up: Up = "estimate",
    scale: float | None = None,
    known: Path | None = None,
    points: Floats | None = None,
) -> PlacedModel:
    """Put a model on a horizontal plane: the ground, if the `points` (m, 3) of the model show it, else the cameras.

    Without `scale` and `known`, the unit is "units" of the model. With `scale` (metres per unit of the model) it is
    metres. With `known`, a table of at least two images with positions, scale, direction and origin come from them.
    """
    if scale is not None and known is not None:
        raise BadInputError("scale and known both give the scale; use one of them")
    if scale is not None and not 0 < scale < np.inf:
        raise BadInputError(f"scale is {scale}, expected metres per unit of the model, above 0")
    axes = _upright(model, up, found)
    origin = np.median(model.centers, axis=0)
    frame = _frame(name, "units", origin, axes)
    xyz, yaw = frame.from_original(model.centers), viewing_yaw(model.axes[:, :, 2] @ axes)
    below, share = (0.0, 0.0) if points is None else _ground(xyz, frame.from_original(points))
    if below:
        text = f"the ground was found {below:.4g} units below the cameras, from {100 * share:.0f} % of the lower points"
        found.say(text, warning=False)
    level = np.array([0, 0, np.median(xyz[:, 2]) - below])
    origin, xyz = origin + axes @ level, xyz - level
    if known is not None:
        return _aligned(model, xyz, yaw, known, name, found)
    if scale is not None:
        return PlacedModel(_frame(name, "m", scale * origin, axes), scale * xyz, yaw)
    remedy = "give scale, or known (two images or more)"
    found.say(f"the scale of the model is unknown, so positions are not in metres; {remedy}")
    return PlacedModel(_frame(name, "units", origin, axes), xyz, yaw)


def _ground(xyz: Floats, points: Floats) -> tuple[float, float]:
    """The height of the cameras above the ground, and the share of the points below the cameras that lie on it.

    Each point is compared with the camera nearest to it, so the ground may slope. The ground is the height at which
    most points lie. Both results are 0 if there is no such height.
    """
    drop = xyz[cKDTree(xyz[:, :2]).query(points[:, :2])[1], 2] - points[:, 2] if len(points) else np.empty(0)
    drop = np.sort(drop[drop > 0])
    if len(drop) < FEWEST_POINTS:
        return 0.0, 0.0
    inside = np.searchsorted(drop, drop * (1 + LAYER)) - np.arange(len(drop))  # points of the layer below each point
    first = int(np.argmax(inside))
    share = inside[first] / len(drop)
    return (float(np.median(drop[first : first + inside[first]])), share) if share >= CLEAR_GROUND else (0.0, 0.0)


def _frame(name: str, unit: Unit, origin: Floats, axes: Floats) -> Frame:
    return Frame(name, unit, origin=cast(Vector, origin), axes=cast(tuple[Vector, Vector, Vector], axes))


def _upright(model: CameraModel, up: Up, found: Findings) -> Floats:
    """The axes (3, 3) of a frame whose z points up, as columns in the coordinates of the model."""
    if up == "estimate":
        vertical = _vertical(model)
        tilt = np.rad2deg(np.arcsin(np.abs(model.axes[:, :, 0] @ vertical).clip(0, 1)))
        median = float(np.median(tilt))
        where = " ".join(f"{value:.3f}" for value in vertical.round(3) + 0.0)  # 0.0 makes -0 a 0
        text = f"up was estimated as {where} in the model; the cameras tilt sideways by {median:.1f} degrees (median)"
        advice = "; if it is wrong, set the option up" if median > LARGE_TILT else ""
        found.say(text + advice, warning=median > LARGE_TILT)
    else:
        vertical = np.eye(3)["xyz".index(up[-1])] * (-1 if up.startswith("-") else 1)
    ahead = np.eye(3)[0 if abs(vertical[0]) < 0.9 else 1]
    ahead = ahead - (ahead @ vertical) * vertical
    ahead /= np.linalg.norm(ahead)
    return np.column_stack([ahead, np.cross(vertical, ahead), vertical])


def _vertical(model: CameraModel) -> Floats:
    """The direction to which the x axes of all cameras are most nearly perpendicular: people hold cameras level.

    If all cameras look the same way, many directions are; then the mean up of the cameras decides.
    """
    right, upward = model.axes[:, :, 0], -model.axes[:, :, 1].mean(axis=0)
    length = np.linalg.norm(upward)
    if length < 1e-6:
        raise BadInputError("the cameras have no common up; set the option up")
    upward = upward / length
    spread = right.T @ right / len(right)
    if np.linalg.eigvalsh(spread)[1] < FEWEST_TURNS:
        spread = spread + np.eye(3) - np.outer(upward, upward)
    vertical: Floats = np.linalg.eigh(spread)[1][:, 0]
    return vertical if vertical @ upward > 0 else -vertical


def _aligned(model: CameraModel, xyz: Floats, yaw: Floats, known: Path, name: str, found: Findings) -> PlacedModel:
    """The best turn, scale and shift in the plane, by least squares, from model positions to known positions."""
    table = read_words(known, ["path", "x", "y", "z"]) if known.suffix == ".txt" else read_table(known)
    table = columns.with_usual_names(table, Findings())
    frame, rows, given = _known_positions(table, model, name)
    here = xyz[rows, 0] + 1j * xyz[rows, 1]
    there = given[:, 0] + 1j * given[:, 1]
    start, end = here.mean(), there.mean()
    size = np.abs(here - start)
    if size.max() <= APART * np.ptp(xyz[:, :2], axis=0).max() or np.abs(there - end).max() == 0:
        raise BadInputError(f"{known}: the known images are at one place, so they give no scale; add one farther away")
    factor = ((here - start).conj() @ (there - end)) / (size @ size)
    placed = factor * (xyz[:, 0] + 1j * xyz[:, 1] - start) + end
    scale = abs(factor)
    height = scale * xyz[:, 2]
    heights = np.isfinite(given[:, 2])
    if heights.any():
        height = height + float(np.mean(given[heights, 2] - height[rows[heights]]))
    off = np.abs(placed[rows] - there)
    text = f"scale is {scale:.6g} metres per unit of the model, from {len(rows):,} known images; "
    if len(rows) == 2:
        text += "two images cannot check each other"
    else:
        text += f"they are off by {np.sqrt(np.mean(off**2)):.3g} m (root mean square), at most {off.max():.3g} m"
    found.say(text, warning=False)
    return PlacedModel(frame, np.column_stack([placed.real, placed.imag, height]), yaw + np.angle(factor))


def _known_positions(table: Table, model: CameraModel, name: str) -> tuple[Frame, Ints, Floats]:
    """The frame of the known positions, the rows of the known images in the model, and their positions (n, 3)."""
    row_of = {path: row for row, path in enumerate(model.names)}
    pairs = [(number, row_of[path]) for number, path in enumerate(table.texts("path")) if path in row_of]
    if len(pairs) < 2:
        unknown = [path for path in table.texts("path") if path not in row_of]
        raise BadInputError(
            f"{table.file}: {len(pairs)} images of the model have known positions, expected 2 or more; "
            f"not in the model: {listed(unknown, 5) or 'none'}"
        )
    numbers, rows = (np.array(values, dtype=np.int64) for values in zip(*pairs, strict=True))
    if len(set(rows.tolist())) < len(rows):
        raise BadInputError(f"{table.file}: an image is listed twice")
    unknown_height = np.full(len(table), np.nan)
    if "x" in table.columns or "y" in table.columns:
        frame, x, y = Frame(name), table.numbers("x"), table.numbers("y")
        z = table.numbers("z", missing_allowed=True) if "z" in table.columns else unknown_height
    else:
        frame, x, y = frame_from_latlon(*columns.latitude_and_longitude(table, "auto"))
        z = table.numbers("altitude", missing_allowed=True) if "altitude" in table.columns else unknown_height
    return frame, rows, np.column_stack([x, y, z])[numbers]
