"""Lens models, compared with the formulas of their papers, written out for one pixel at a time."""

import math

import numpy as np
import pytest

from mappable.places.lenses import Lens

SIZE, FOCAL, CENTER = (40, 30), (30.0, 32.0), (19.0, 15.5)


def bend(model: str, k: list[float], x: float, y: float) -> tuple[float, float]:
    r = math.hypot(x, y)
    if model == "equidistant":
        theta = math.atan(r)
        bent = theta + k[0] * theta**3 + k[1] * theta**5 + k[2] * theta**7 + k[3] * theta**9
        return (x * bent / r, y * bent / r) if r else (x, y)
    radial = 1 + k[0] * r**2 + k[1] * r**4 + k[4] * r**6
    if model == "rational_polynomial":
        radial /= 1 + k[5] * r**2 + k[6] * r**4 + k[7] * r**6
    p1, p2 = k[2], k[3]
    return x * radial + 2 * p1 * x * y + p2 * (r**2 + 2 * x**2), y * radial + p1 * (
        r**2 + 2 * y**2
    ) + 2 * p2 * x * y


@pytest.mark.parametrize(
    ("model", "coefficients"),
    [
        ("plumb_bob", [-0.2, 0.05, 0.01, -0.02, 0.003]),
        ("rational_polynomial", [-0.2, 0.05, 0.01, -0.02, 0.003, 0.1, -0.02, 0.001]),
        ("equidistant", [0.02, -0.01, 0.004, -0.001]),
    ],
)
def test_each_pixel_comes_from_where_the_lens_images_it(
    model: str, coefficients: list[float]
) -> None:
    columns, rows = np.meshgrid(np.arange(40.0), np.arange(30.0))
    # Linear, so bilinear is exact.
    image = np.stack([columns * 4, rows * 4, columns + rows], axis=2).astype(np.uint8)
    found = Lens(SIZE, FOCAL, CENTER, model, tuple(coefficients)).undistortion().resample(image)
    for column in range(5, 35, 3):
        for row in range(5, 25, 3):
            x, y = bend(model, coefficients, (column - 19.0) / 30.0, (row - 15.5) / 32.0)
            u, v = 30.0 * x + 19.0, 32.0 * y + 15.5
            if 0 <= u <= 39 and 0 <= v <= 29:
                assert found[row, column].astype(float) == pytest.approx(
                    [4 * u, 4 * v, u + v], abs=0.51
                )


def test_a_lens_scales_with_its_images() -> None:
    lens = Lens(SIZE, FOCAL, CENTER, "plumb_bob", (-0.2,)).scaled(20, 15)
    assert (lens.focal, lens.center) == ((15.0, 16.0), (9.25, 7.5))
    assert Lens((0, 0), FOCAL, CENTER, "plumb_bob", (-0.2,)).scaled(20, 15).focal == FOCAL
    assert not Lens(SIZE, FOCAL, CENTER, "plumb_bob", (0.0,) * 5).distorts
