"""Lenses: the distortion of a camera, in the models of ROS and COLMAP, to undistort its images."""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from mappable.arrays import Floats, Pixels
from mappable.errors import BadInputError, shown
from mappable.places.decoding import Sampling

COEFFICIENTS = {"plumb_bob": 5, "rational_polynomial": 8, "equidistant": 4}  # by model; fewer count as 0


@dataclass(frozen=True)
class Lens:
    """A camera with lens distortion: image size in pixels, focal lengths, center, model and its coefficients.

    A size of 0, 0 is unknown: then the numbers are for the images as they are.
    """

    size: tuple[int, int]
    focal: tuple[float, float]
    center: tuple[float, float]
    model: str
    coefficients: tuple[float, ...]

    def __post_init__(self) -> None:
        if self.model not in COEFFICIENTS:
            raise BadInputError(f"distortion model is {shown(self.model)}, expected one of: {', '.join(COEFFICIENTS)}")
        numbers = np.array([*self.focal, *self.center, *self.coefficients], dtype=np.float64)
        if not np.isfinite(numbers).all() or min(self.focal) <= 0 or min(self.size) < 0:
            raise BadInputError(
                f"focal lengths {self.focal}, center {self.center} and coefficients {self.coefficients} "
                "are not those of a camera"
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
        center = (self.center[0] + 0.5) * across - 0.5, (self.center[1] + 0.5) * down - 0.5  # pixel centers are whole
        return Lens((width, height), focal, center, self.model, self.coefficients)

    def undistort(self, image: Pixels) -> Pixels:
        """The image (height, width, channels), of any size, with straight lines."""
        return _sampling(self.scaled(image.shape[1], image.shape[0])).resample(image)

    def undistortion(self) -> Sampling:
        """How to resample an image, so that straight lines become straight. Size, focal lengths and center stay."""
        width, height = self.size
        column, row = np.meshgrid(np.arange(width, dtype=np.float64), np.arange(height, dtype=np.float64))
        x, y = (column.ravel() - self.center[0]) / self.focal[0], (row.ravel() - self.center[1]) / self.focal[1]
        bent_x, bent_y = self.bend(x, y)
        u = bent_x * self.focal[0] + self.center[0]
        v = bent_y * self.focal[1] + self.center[1]
        far = 2.0 * max(width, height)  # outside of every image; also keeps numbers finite
        u, v = (np.nan_to_num(pixels, nan=-far, posinf=far, neginf=-far).clip(-far, far) for pixels in (u, v))
        return Sampling.at(u, v, height, width)

    def bend(self, x: Floats, y: Floats) -> tuple[Floats, Floats]:
        """Where the lens images the points (x, y, 1), at focal length 1."""
        given = [*self.coefficients[: COEFFICIENTS[self.model]]]
        k = np.array(given + [0.0] * (COEFFICIENTS[self.model] - len(given)))
        squared = x * x + y * y
        with np.errstate(all="ignore"):
            if self.model == "equidistant":  # Kannala and Brandt: the image radius is a polynomial of the angle
                radius = np.sqrt(squared)
                angle = np.arctan(radius)
                bent = angle * (1 + angle**2 * (k[0] + angle**2 * (k[1] + angle**2 * (k[2] + angle**2 * k[3]))))
                scale = np.divide(bent, radius, out=np.ones_like(radius), where=radius > 1e-12)
                return x * scale, y * scale
            # Brown and Conrady: radial k1 k2 k3, tangential p1 p2; the rational model divides by k4 k5 k6.
            radial = 1 + squared * (k[0] + squared * (k[1] + squared * k[4]))
            if self.model == "rational_polynomial":
                radial = radial / (1 + squared * (k[5] + squared * (k[6] + squared * k[7])))
            across = 2 * k[2] * x * y + k[3] * (squared + 2 * x * x)
            down = k[2] * (squared + 2 * y * y) + 2 * k[3] * x * y
            return x * radial + across, y * radial + down


@lru_cache(maxsize=2)
def _sampling(lens: Lens) -> Sampling:
    return lens.undistortion()
