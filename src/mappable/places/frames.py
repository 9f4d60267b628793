"""Frames: named coordinate systems. Places in different frames are never compared."""

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from mappable.arrays import Floats
from mappable.errors import BadInputError, shown
from mappable.places import geodesy

Unit = Literal["m", "frames", "units"]
Vector = tuple[float, float, float]
# Metres from the median position; farther out, a flat frame distorts distances by over 1 %.
MAX_RADIUS = 1_000_000.0
IDENTITY: tuple[Vector, Vector, Vector] = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))


@dataclass(frozen=True)
class Frame:
    """A coordinate system with +z up and +y to the left of +x. With a CRS, +x is east and +y is
    north.

    A point p of the frame is `axes @ p + origin` in the original coordinates of the data set.
    `unit` is "m" for metres, "frames" if a data set has only frame numbers along a route, or
    "units" for a model of unknown scale. The last two are never called metres.
    """

    name: str
    unit: Unit = "m"
    crs: str | None = None
    origin: Vector = (0.0, 0.0, 0.0)
    axes: tuple[Vector, Vector, Vector] = IDENTITY

    def __post_init__(self) -> None:
        if not self.name:
            raise BadInputError("a frame needs a name")
        try:
            axes, origin = (
                np.array(self.axes, dtype=np.float64),
                np.array(self.origin, dtype=np.float64),
            )
        except (TypeError, ValueError) as error:
            raise BadInputError(
                f"frame {shown(self.name)}: axes or origin are not numbers ({error})"
            ) from None
        units = ("m",) if self.crs else get_args(Unit)
        unit = f"m, because the CRS is {self.crs}" if self.crs else f"one of: {', '.join(units)}"
        orthonormal = axes.shape == (3, 3) and np.allclose(axes @ axes.T, np.eye(3))
        for what, right, value, expected in (
            ("unit", self.unit in units, self.unit, unit),
            (
                "origin",
                origin.shape == (3,) and np.isfinite(origin).all(),
                self.origin,
                "three finite numbers",
            ),
            ("axes", orthonormal, self.axes, "an orthonormal matrix"),
        ):
            if not right:
                raise BadInputError(
                    f"frame {shown(self.name)}: {what} is {shown(value)}, expected {expected}"
                )
        # Convert lists and arrays to tuples of floats, so that frames can be compared, hashed and
        # saved.
        object.__setattr__(self, "origin", tuple(origin.tolist()))
        object.__setattr__(self, "axes", tuple(tuple(row) for row in axes.tolist()))

    @classmethod
    def near(cls, name: str, easting: Floats, northing: Floats, crs: str | None = None) -> "Frame":
        """A frame in metres. Its origin is the median of the points, rounded down to whole
        kilometres.
        """
        median = np.median(easting), np.median(northing)
        east, north = (float(np.floor(value / 1000) * 1000) for value in median)
        return cls(name, crs=crs, origin=(east, north, 0.0))

    def to_original(self, xyz: Floats) -> Floats:
        """Convert points (n, 2 or 3) of this frame to original coordinates (n, 3); an unknown z
        counts as 0.
        """
        original: Floats = _three_columns(xyz) @ np.array(self.axes).T + np.array(self.origin)
        return original

    def from_original(self, xyz: Floats) -> Floats:
        """Convert original coordinates (n, 2 or 3) to points (n, 3) of this frame; an unknown third
        one counts as 0.
        """
        own: Floats = (_three_columns(xyz) - np.array(self.origin)) @ np.array(self.axes)
        return own

    def to_latlon(self, xyz: Floats) -> tuple[Floats, Floats]:
        """Latitude and longitude in degrees of points (n, 2 or 3); raises if the frame has no CRS."""
        if not self.crs:
            raise BadInputError(
                f"frame {shown(self.name)}: no CRS, so latitude and longitude are unknown"
            )
        original = self.to_original(xyz)
        return geodesy.unproject(original[:, 0], original[:, 1], self.crs)

    def degrees(self, xyz: Floats) -> list[tuple[float, float] | tuple[None, None]]:
        """Latitude and longitude in degrees of each point (n, 2 or 3); None if the frame has no
        CRS.
        """
        if not self.crs or not len(xyz):
            return [(None, None)] * len(xyz)
        latitude, longitude = self.to_latlon(xyz)
        return list(zip(latitude.tolist(), longitude.tolist(), strict=True))

    def same_but_for_origin(self, other: "Frame") -> bool:
        """True if the two frames have a CRS and differ at most in their origins."""
        return self.crs is not None and replace(self, origin=other.origin) == other

    def differs(self, other: "Frame") -> str:
        """In which of unit, CRS, origin and axes two frames differ, for an error."""
        values = (
            ("unit", self.unit, other.unit),
            ("CRS", self.crs, other.crs),
            ("origin", self.origin, other.origin),
        )
        parts = [
            f"{what} {_written(one)} and {_written(two)}" for what, one, two in values if one != two
        ]
        return ", ".join(parts + ["other axes"] * (self.axes != other.axes))

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> "Frame":
        axes = tuple(tuple(float(value) for value in row) for row in fields["axes"])
        origin = tuple(float(value) for value in fields["origin"])
        return cls(fields["name"], fields["unit"], fields["crs"], origin, axes)  # type: ignore[arg-type]


def _written(value: object) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(f'{number:g}' for number in value)})"
    return "none" if value is None else str(value)


def frame_from_latlon(
    latitude: Floats, longitude: Floats, name: str | None = None
) -> tuple[Frame, Floats, Floats]:
    """A frame in metres for points in degrees, and their x and y. All points use the UTM zone of
    the median point.

    One zone for the whole set keeps distances right across a zone border, the equator and the 180th
    meridian.
    """
    if len(latitude) == 0 or not (np.isfinite(latitude).all() and np.isfinite(longitude).all()):
        raise BadInputError("latitudes and longitudes must be finite, with at least one point")
    around = np.angle(np.exp(1j * np.deg2rad(longitude)).sum(), deg=True)  # the mean direction
    unrolled = around + (longitude - around + 180) % 360 - 180  # 179.9 and -179.9 are close
    crs = geodesy.utm_crs(float(np.median(latitude)), float(np.median(unrolled)))
    easting, northing = geodesy.project(latitude, longitude, crs)
    frame = Frame.near(name or geodesy.utm_name(crs), easting, northing, crs)
    return frame, easting - frame.origin[0], northing - frame.origin[1]


def _three_columns(xyz: Floats) -> Floats:
    xyz = np.asarray(xyz, dtype=np.float64)
    if xyz.shape[1] == 2:
        return np.column_stack([xyz, np.zeros(len(xyz))])
    return np.column_stack([xyz[:, :2], np.where(np.isnan(xyz[:, 2]), 0.0, xyz[:, 2])])
