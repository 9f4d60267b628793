"""Camera models: level, without distortion, with the noise and blur of real sensors."""

from dataclasses import dataclass
from math import radians, tan


@dataclass(frozen=True)
class Camera:
    """A camera. `field_of_view` is horizontal, in radians; `height` is metres above the ground
    under the vehicle.

    `noise` is the sensor noise as a share of white. `blur` is the blur of the lens in thousandths
    of the image width. `gain` multiplies the exposure. `tint` is the color (red, green, blue) in
    which the camera sees white.
    """

    field_of_view: float
    height: float
    noise: float = 0.009
    blur: float = 2.5
    gain: float = 1.0
    tint: tuple[float, float, float] = (1.0, 1.0, 1.0)

    def focal_length(self, width: int) -> float:
        """Return the focal length in pixels, for an image of that width."""
        return width / 2 / tan(self.field_of_view / 2)


CAR = Camera(radians(75), 1.6)
OTHER_CAR = Camera(radians(58), 2.3, noise=0.016, blur=4.0, gain=0.8, tint=(1.06, 1.0, 0.9))
ROBOT = Camera(radians(70), 1.0)
OTHER_ROBOT = Camera(radians(90), 0.6, noise=0.016, blur=4.0, gain=0.8, tint=(0.92, 1.0, 1.08))
