"""Poses as trajectory files hold them: rows of bare numbers, and rotations from which the yaw of a view is taken."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mappable.arrays import Bools, Floats
from mappable.errors import BadInputError
from mappable.places.frames import IDENTITY, Vector
from mappable.places.tabular import Table

# The axes of a frame over camera coordinates (X right, Y down, Z forward): x = X, y = Z, z = -Y, right-handed too.
CAMERA_PLANE: tuple[Vector, Vector, Vector] = ((1.0, 0.0, 0.0), (0.0, 0.0, -1.0), (0.0, 1.0, 0.0))
PLANES = {"xy": IDENTITY, "xz": CAMERA_PLANE}
AXES: dict[str, Vector] = {"x": (1.0, 0.0, 0.0), "z": (0.0, 0.0, 1.0)}
VERTICAL = np.sin(np.deg2rad(1.0))  # a view whose horizontal part is shorter than this has no direction on the map


def rotate(quaternions: Floats, vector: Vector) -> Floats:
    """What each unit quaternion (n, 4), in the order x, y, z, w, makes of one vector: (n, 3).

    >>> rotate(np.array([[0.0, 0.0, 1.0, 0.0]]), (1.0, 2.0, 3.0)).tolist()  # half a turn about z
    [[-1.0, -2.0, 3.0]]
    """
    axis, scalar = quaternions[:, :3], quaternions[:, 3:]
    twice = 2 * np.cross(axis, np.array(vector))
    rotated: Floats = np.array(vector) + scalar * twice + np.cross(axis, twice)
    return rotated


def slerp(start: Floats, end: Floats, share: Floats) -> Floats:
    """Unit quaternions (n, 4) `share` of the way from `start` to `end`, turning evenly the shorter way round."""
    end = np.where(np.sum(start * end, axis=1, keepdims=True) < 0, -end, end)  # q and -q are one rotation
    apart, along = np.linalg.norm(end - start, axis=1), np.linalg.norm(end + start, axis=1)
    angle, share = 2 * np.arctan2(apart, along)[:, None], share[:, None]

    def weight(part: Floats) -> Floats:
        """sin(part * angle) / sin(angle), also where the angle is 0."""
        ratio: Floats = part * np.sinc(part * angle / np.pi) / np.sinc(angle / np.pi)
        return ratio

    between: Floats = weight(1 - share) * start + weight(share) * end
    return between


def viewing_yaw(directions: Floats) -> Floats:
    """Yaw of viewing directions (n, 3) of unit length in a frame; NaN where one is within a degree of the vertical."""
    level = np.hypot(directions[:, 0], directions[:, 1]) >= VERTICAL
    return np.where(level, np.arctan2(directions[:, 1], directions[:, 0]), np.nan)


def are_rotations(matrices: Floats, tolerance: float) -> Bools:
    """Which matrices (n, 3, 3) are orthonormal within `tolerance` in every entry of M M^T, and no mirror images."""
    off: Floats = np.abs(matrices @ matrices.transpose(0, 2, 1) - np.eye(3)).max(axis=(1, 2))
    proper: Floats = np.linalg.det(matrices)
    return (off <= tolerance) & (proper > 0)


def read_words(file: Path, names: Sequence[str]) -> Table:
    """A text file of rows of words between white space, one for each of the `names`, as a table.

    Empty lines and lines that begin with # are passed over; rows keep the numbers that an editor shows.
    """
    try:
        lines = file.read_text("utf-8-sig").splitlines()
    except OSError as error:
        raise BadInputError(f"{file}: cannot be read ({(error.strerror or str(error)).lower()})") from None
    except UnicodeDecodeError:
        raise BadInputError(f"{file}: not a text file in UTF-8") from None
    split = ((number, line.split()) for number, line in enumerate(lines, start=1))
    rows = {number: words for number, words in split if words and not words[0].startswith("#")}
    for number, words in rows.items():
        if len(words) != len(names):
            raise BadInputError(f"{file}, row {number}: {len(words)} values, but there must be {len(names)}")
    columns = {name: [words[position] for words in rows.values()] for position, name in enumerate(names)}
    return Table(file, columns, list(rows))
