"""Recover the path of a robot from radio ranges to a few fixed radios.

python radio_ranges.py [RANGES.csv RADIOS.csv]    RANGES: i,j,metres,sigma; RADIOS: point,x,y; writes radio_ranges.png

Points are numbered from 0: first the robot at each time, then the radios.
"""

import sys

import matplotlib.pyplot as plt
import numpy as np

from mappable.recovery import Anchors, Ranges, recover


def main(i: np.ndarray, j: np.ndarray, metres: np.ndarray, sigma: np.ndarray, radios: Anchors) -> np.ndarray:
    count = int(max(i.max(), j.max(), radios.points.max())) + 1
    path = np.setdiff1d(np.arange(count), radios.points)
    found = recover(Ranges(count, i, j, metres, sigma), anchors=radios, ordered=[path])
    deviation = np.sqrt(np.trace(found.covariances[path], axis1=1, axis2=2))
    print(f"{len(path)} positions from {len(metres)} ranges; {np.sum(~found.used)} ranges do not fit and were left out")
    print(f"standard deviation {np.median(deviation):.2f} m in the median, {deviation.max():.2f} m at most")
    for sentence in found.undetermined:
        print(sentence)
    figure, axes = plt.subplots()
    axes.plot(*found.positions[path].T, "-", label="recovered path")
    axes.plot(*radios.positions.T, "^", label="radios")
    axes.set(aspect="equal", xlabel="x (m)", ylabel="y (m)")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2)  # above the plot: radios may be in every corner
    figure.savefig("radio_ranges.png", dpi=120, bbox_inches="tight")
    print("radio_ranges.png shows the path")
    return found.positions[path]


if __name__ == "__main__":
    if len(sys.argv) == 3:
        i, j, metres, sigma = np.loadtxt(sys.argv[1], delimiter=",", skiprows=1).T
        point, x, y = np.loadtxt(sys.argv[2], delimiter=",", skiprows=1).T
        main(i.astype(int), j.astype(int), metres, sigma, Anchors(point.astype(int), np.column_stack([x, y]), 0.05))
    else:
        random, angle = np.random.default_rng(0), np.linspace(0, 1.8 * np.pi, 60)
        truth = np.column_stack([20 * np.cos(angle), 12 * np.sin(2 * angle)])  # an eight, 40 m long
        radios = np.array([[-25.0, -15.0], [25.0, -15.0], [25.0, 15.0], [-25.0, 15.0], [0.0, -15.0], [0.0, 15.0]])
        i, j = np.repeat(np.arange(60), 6), np.tile(np.arange(60, 66), 60)
        metres = np.linalg.norm(truth[i] - radios[j - 60], axis=1) + random.normal(0, 0.1, len(i))
        metres[random.choice(len(i), 18, replace=False)] += 8  # echoes from walls
        path = main(i, j, metres, np.full(len(i), 0.1), Anchors(np.arange(60, 66), radios, 0.05))
        print(f"median error {np.median(np.linalg.norm(path - truth, axis=1)):.2f} m")
