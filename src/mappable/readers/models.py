"""Models of cameras from images (COLMAP, NeRF): gravity from the cameras, ground from points, scale only if known."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from scipy.spatial import cKDTree

from mappable.arrays import Floats, Ints
from mappable.errors import BadInputError, listed
from mappable.places.frames import Frame, Unit, frame_from_latlon
from mappable.places.notes import Findings
from mappable.places.rotations import viewing_yaw
from mappable.places.table import Places
from mappable.readers import columns
from mappable.tables import read_table, read_words

Up = Literal["estimate", "x", "y", "z", "-x", "-y", "-z"]
UpOption = Annotated[Up, "direction of up in the model: estimate, or an axis"]
ScaleOption = Annotated[float | None, "metres per unit of the model, if known"]
KnownOption = Annotated[Path | None, "table with positions of at least two images"]
# Signs of the axes of a camera, from OpenGL (y up, z backward) to ours.
OPENGL = np.array([1.0, -1.0, -1.0])
# Variance of the x axes in the horizontal plane; below (about 6 degrees), cameras look one way.
FEWEST_TURNS = 0.01
# Degrees between a camera's horizon and the plane; above it, the estimate is doubtful.
LARGE_TILT = 10.0
LAYER = 0.1  # thickness of the ground, as a share of the height of the cameras above it
CLEAR_GROUND = 0.2  # share of the points below their nearest camera that make a clear ground
FEWEST_POINTS = 50  # below the cameras; fewer show no ground


@dataclass(frozen=True)
class CameraModel:
    """Cameras in coordinates of unknown scale and direction: centers (n, 3) and axes (n, 3, 3) from
    camera to model.

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

    def __add__(self, other: "CameraModel") -> "CameraModel":
        """The cameras of two models in the same coordinates."""
        centers, axes = (
            np.concatenate([self.centers, other.centers]),
            np.concatenate([self.axes, other.axes]),
        )
        return CameraModel(self.names + other.names, centers, axes)

    def place(
        self,
        name: str,
        found: Findings,
        up: Up = "estimate",
        scale: float | None = None,
        known: Path | None = None,
        points: Floats | None = None,
        **values: Any,
    ) -> Places:
        """The places on a horizontal plane: the ground, if the `points` (m, 3) of the model show
        it, else the cameras.

        Without `scale` and `known`, the unit is "units" of the model. With `scale` (metres per unit
        of the model) it is metres. With `known`, a table of at least two images with positions,
        scale, direction and origin come from them.
        """
        if scale is not None and known is not None:
            raise BadInputError("scale and known both give the scale; use one of them")
        if scale is not None and not 0 < scale < np.inf:
            raise BadInputError(f"scale is {scale}, expected metres per unit of the model, above 0")
        axes, origin = _upright(self, up, found), np.median(self.centers, axis=0)
        frame = _frame(name, "units", origin, axes)
        xyz, yaw = frame.from_original(self.centers), viewing_yaw(self.axes[:, :, 2] @ axes)
        below = 0.0 if points is None else _ground(xyz, frame.from_original(points), found)
        level = np.array([0, 0, np.median(xyz[:, 2]) - below])
        origin, xyz = origin + axes @ level, xyz - level
        if known is not None:
            frame, xyz, yaw = _aligned(self.names, xyz, yaw, known, name, found)
        elif scale is not None:
            frame, xyz = _frame(name, "m", scale * origin, axes), scale * xyz
        else:
            remedy = "give scale, or known (two images or more)"
            found.say(
                f"the scale of the model is unknown, so positions are not in metres; {remedy}"
            )
            frame = _frame(name, "units", origin, axes)
        x, y, z = xyz.T
        return Places(path=self.names, x=x, y=y, z=z, yaw=yaw, frames=frame, **values)


def _frame(name: str, unit: Unit, origin: Any, axes: Any) -> Frame:
    return Frame(name, unit, origin=origin, axes=axes)


def _ground(xyz: Floats, points: Floats, found: Findings) -> float:
    """The height of the cameras above the ground; 0 if the points show no ground.

    Each point is compared with the camera nearest to it, so the ground may slope. The ground is the
    height at which most points lie.
    """
    drop = (
        xyz[cKDTree(xyz[:, :2]).query(points[:, :2])[1], 2] - points[:, 2]
        if len(points)
        else np.empty(0)
    )
    drop = np.sort(drop[drop > 0])
    if len(drop) < FEWEST_POINTS:
        return 0.0
    # Points of the layer below each point.
    inside = np.searchsorted(drop, drop * (1 + LAYER)) - np.arange(len(drop))
    first = int(np.argmax(inside))
    share = inside[first] / len(drop)
    if share < CLEAR_GROUND:
        return 0.0
    height = float(np.median(drop[first : first + inside[first]]))
    text = (
        f"the ground was found {height:.4g} units below the cameras, from {100 * share:.0f} % of"
        " the lower points"
    )
    found.say(text, warning=False)
    return height


def _upright(model: CameraModel, up: Up, found: Findings) -> Floats:
    """The axes (3, 3) of a frame whose z points up, as columns in the coordinates of the model."""
    if up == "estimate":
        vertical = _vertical(model)
        tilt = np.rad2deg(np.arcsin(np.abs(model.axes[:, :, 0] @ vertical).clip(0, 1)))
        median = float(np.median(tilt))
        where = " ".join(f"{value:.3f}" for value in vertical.round(3) + 0.0)  # 0.0 makes -0 a 0
        text = (
            f"up was estimated as {where} in the model; the cameras tilt sideways by {median:.1f}"
            " degrees (median)"
        )
        advice = "; if it is wrong, set the option up" if median > LARGE_TILT else ""
        found.say(text + advice, warning=median > LARGE_TILT)
    else:
        vertical = np.eye(3)["xyz".index(up[-1])] * (-1 if up.startswith("-") else 1)
    ahead = np.eye(3)[0 if abs(vertical[0]) < 0.9 else 1]
    ahead = ahead - (ahead @ vertical) * vertical
    ahead /= np.linalg.norm(ahead)
    return np.column_stack([ahead, np.cross(vertical, ahead), vertical])


def _vertical(model: CameraModel) -> Floats:
    """The direction to which the x axes of all cameras are most nearly perpendicular: people hold
    cameras level.

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


def _aligned(
    names: list[str], xyz: Floats, yaw: Floats, known: Path, name: str, found: Findings
) -> tuple[Frame, Floats, Floats]:
    """The best turn, scale and shift in the plane, by least squares, from model positions to known
    positions.
    """
    frame, rows, there = _known_positions(known, names, name)
    here, target = xyz[rows, 0] + 1j * xyz[rows, 1], there[:, 0] + 1j * there[:, 1]
    start, end = here.mean(), target.mean()
    offsets = np.abs(here - start)
    if np.abs(here - here[0]).max() == 0 or np.abs(target - target[0]).max() == 0:
        raise BadInputError(
            f"{known}: the known images are at one place, so they give no scale; add one farther"
            " away"
        )
    factor = ((here - start).conj() @ (target - end)) / (offsets @ offsets)
    placed = factor * (xyz[:, 0] + 1j * xyz[:, 1] - start) + end
    scale = abs(factor)
    height = scale * xyz[:, 2]
    heights = np.isfinite(there[:, 2])
    if heights.any():
        height = height + float(np.mean(there[heights, 2] - height[rows[heights]]))
    off = np.abs(placed[rows] - target)
    fit = (
        f"they are off by {np.sqrt(np.mean(off**2)):.3g} m (root mean square), at most"
        f" {off.max():.3g} m"
    )
    fit = "two images cannot check each other" if len(rows) == 2 else fit
    text = (
        f"scale is {scale:.6g} metres per unit of the model, from {len(rows):,} known images; {fit}"
    )
    found.say(text, warning=False)
    return frame, np.column_stack([placed.real, placed.imag, height]), yaw + np.angle(factor)


def _known_positions(file: Path, names: list[str], frame: str) -> tuple[Frame, Ints, Floats]:
    """The frame of the known positions, the rows of the known images in the model, and their
    positions (n, 3).
    """
    table = read_words(file, ["path", "x", "y", "z"]) if file.suffix == ".txt" else read_table(file)
    table = columns.with_usual_names(table, Findings())
    row_of = {path: row for row, path in enumerate(names)}
    paths = table.texts("path")
    known = [row for row, path in enumerate(paths) if path in row_of]
    rows = np.array([row_of[paths[row]] for row in known], dtype=np.int64)
    if len(set(rows.tolist())) < len(rows):
        raise BadInputError(f"{file}: an image is listed twice")
    if len(rows) < 2:
        others = listed([path for path in paths if path not in row_of], 5) or "none"
        expected = "images of the model have known positions, expected 2 or more"
        raise BadInputError(f"{file}: {len(rows)} {expected}; not in the model: {others}")
    in_degrees, x, y, z = columns.positions(table, "auto")
    known_frame = Frame(frame)
    if in_degrees:
        known_frame, x, y = frame_from_latlon(y, x)
    return known_frame, rows, np.column_stack([x, y, z])[known]
