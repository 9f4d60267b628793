"""Lenses: the distortion of a camera, in the models of ROS and COLMAP, to undistort its images."""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.polynomial.polynomial import polyval

from mappable.arrays import Floats, Pixels
from mappable.errors import BadInputError, shown
from mappable.places.decoding import Sampling

# By model; fewer count as 0.
COEFFICIENTS = {"plumb_bob": 5, "rational_polynomial": 8, "equidistant": 4}


@dataclass(frozen=True)
class Lens:
    """A camera with lens distortion: image size in pixels, focal lengths, center, model and its
    coefficients.

    A size of 0, 0 is unknown: then the numbers are for the images as they are.
    """

    size: tuple[int, int]
    focal: tuple[float, float]
    center: tuple[float, float]
    model: str
    coefficients: tuple[float, ...]

    def __post_init__(self) -> None:
        if self.model not in COEFFICIENTS:
            raise BadInputError(
                f"distortion model is {shown(self.model)}, expected one of:"
                f" {', '.join(COEFFICIENTS)}"
            )
        numbers = np.array([*self.focal, *self.center, *self.coefficients], dtype=np.float64)
        if not np.isfinite(numbers).all() or min(self.focal) <= 0 or min(self.size) < 0:
            raise BadInputError(
                f"focal lengths {self.focal}, center {self.center} and coefficients"
                f" {self.coefficients} are not those of a camera"
            )

    @property
    def distorts(self) -> bool:
        """False if all coefficients are 0, except in the fisheye model, which always bends."""
        return self.model == "equidistant" or any(self.coefficients)

    def scaled(self, width: int, height: int) -> "Lens":
        """The lens for the same images at another size."""
        if min(self.size) < 1:
            return replace(self, size=(width, height))
        across, down = width / self.size[0], height / self.size[1]
        focal = self.focal[0] * across, self.focal[1] * down
        # Pixel centers are whole.
        center = (self.center[0] + 0.5) * across - 0.5, (self.center[1] + 0.5) * down - 0.5
        return Lens((width, height), focal, center, self.model, self.coefficients)

    def undistort(self, image: Pixels) -> Pixels:
        """The image (height, width, channels), of any size, with straight lines."""
        return _sampling(self.scaled(image.shape[1], image.shape[0])).resample(image)

    def undistortion(self) -> Sampling:
        """How to resample an image, so that straight lines become straight. Size, focal lengths and
        center stay.
        """
        focal, center = np.array(self.focal)[:, None], np.array(self.center)[:, None]
        # Columns, rows.
        pixels = np.indices(self.size[::-1]).astype(np.float64)[::-1].reshape(2, -1)
        bent = self.bend((pixels - center) / focal) * focal + center
        far = 2.0 * max(self.size)  # outside of every image; also keeps numbers finite
        u, v = np.nan_to_num(bent, nan=-far, posinf=far, neginf=-far).clip(-far, far)
        return Sampling.at(u, v, self.size[1], self.size[0])

    def bend(self, points: Floats) -> Floats:
        """Where the lens images the points (x, y, 1), given as (2, n), at focal length 1."""
        count = COEFFICIENTS[self.model]
        k = np.zeros(count)
        k[: len(self.coefficients)] = self.coefficients[:count]
        squared = np.sum(points**2, axis=0)
        with np.errstate(all="ignore"):
            # Kannala and Brandt: the image radius is a polynomial of the angle.
            if self.model == "equidistant":
                radius = np.sqrt(squared)
                angle = np.arctan(radius)
                bent = angle * polyval(angle**2, [1, *k])
                scale: Floats = np.divide(
                    bent, radius, out=np.ones_like(radius), where=radius > 1e-12
                )
                return points * scale
            # Brown and Conrady: radial k1 k2 k3, tangential p1 p2; the rational model divides by k4
            # k5 k6.
            radial: Floats = polyval(squared, [1, k[0], k[1], k[4]]) / polyval(squared, [1, *k[5:]])
            tangential: Floats = (
                k[[3, 2]][:, None] * (squared + 2 * points**2)
                + 2 * k[[2, 3]][:, None] * points[0] * points[1]
            )
            return points * radial + tangential


@lru_cache(maxsize=2)
def _sampling(lens: Lens) -> Sampling:
    return lens.undistortion()
