"""Follow a camera while it moves, with odometry; it stays silent until it is sure.

python follow_live.py [MAP IMAGES ODOMETRY.csv]    odometry: forward,left,turn per image, in metres and radians
"""

import sys
from pathlib import Path

import numpy as np
from drawn import draw_map, draw_walks

import mappable
from mappable.localization import Odometry


def main(opened: mappable.Map, images: list[Path] | np.ndarray, motions: np.ndarray) -> None:
    localizer = mappable.Localizer(opened)
    state = ""
    for number, (image, motion) in enumerate(zip(images, motions, strict=True)):
        estimate = localizer.update(image, time=float(number), odometry=Odometry(*motion) if number else None)
        if estimate.state != state:
            state = estimate.state
            print(f"image {number}: {state}" + (f" ({estimate.reason})" if estimate.reason else ""))
        if estimate.trusted:
            x, y = estimate.position[:2]
            deviation = np.sqrt(np.trace(np.array(estimate.covariance)))
            print(f"image {number}: x {x:.2f}, y {y:.2f} {estimate.unit}, standard deviation {deviation:.2f}")


def wheels(x: np.ndarray, y: np.ndarray, yaw: np.ndarray) -> np.ndarray:
    """What the wheels of a robot report (n, 3): the motion since the image before, 2 % too long."""
    step = np.diff(np.column_stack([x, y]), axis=0, prepend=[[x[0], y[0]]])
    before = np.concatenate([yaw[:1], yaw[:-1]])
    forward = np.cos(before) * step[:, 0] + np.sin(before) * step[:, 1]
    left = np.cos(before) * step[:, 1] - np.sin(before) * step[:, 0]
    return np.column_stack([1.02 * forward, 1.02 * left, np.diff(yaw, prepend=yaw[0])])


if __name__ == "__main__":
    if len(sys.argv) == 4:
        table = np.loadtxt(sys.argv[3], delimiter=",", skiprows=1, ndmin=2)
        main(mappable.open_map(sys.argv[1]), sorted(Path(sys.argv[2]).iterdir()), table)
    else:
        places, images = draw_walks()
        test = places.queries()
        main(draw_map(), images[test], wheels(places.x[test], places.y[test], places.yaw[test]))
