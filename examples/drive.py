"""Locate the images of a drive alone and as a sequence, and plot both.

python drive.py [MAP DRIVE]    DRIVE is a folder of images in order; writes drive.png
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from drawn import draw_map, draw_walks

import mappable


def main(opened: mappable.Map, drive: Path | np.ndarray, truth: np.ndarray | None = None) -> None:
    figure, (axes, intervals) = plt.subplots(2, figsize=(8, 6), layout="constrained")
    axes.plot(*opened.landmarks.places.positions[:, :2].T, "o", color="silver", markersize=10, label="landmarks")
    for name, locate in (("alone", opened.locate_all), ("as a drive", opened.locate_drive)):
        located = [one for one in locate(drive) if one.error is None]
        line = "x" if name == "alone" else ".-"
        found = np.array([one.coordinates for one in located])
        print(f"{name}: {sum(one.confident for one in located)} of {len(found)} images confident", end="")
        print(f", median interval up to {np.median([one.high for one in located]):.1f} m", end="")
        if truth is not None:
            errors = np.linalg.norm(found - truth, axis=1)
            print(f", median error {np.median(errors):.2f} m, largest {errors.max():.2f} m", end="")
        print()
        axes.plot(*found[:, :2].T, line, label=name)
        intervals.plot([one.high for one in located], line, label=name)
    unit = opened.landmarks.unit
    axes.set(aspect="equal", xlabel=f"x ({unit})", ylabel=f"y ({unit})")
    intervals.set(xlabel="image", ylabel=f"interval of the distance\nto the landmark, up to ({unit})", ylim=(0, None))
    intervals.xaxis.get_major_locator().set_params(integer=True)
    axes.legend()
    intervals.legend()
    figure.savefig("drive.png", dpi=120)
    print("drive.png shows both")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        main(mappable.open_map(sys.argv[1]), Path(sys.argv[2]))
    else:
        places, images = draw_walks()
        test = places.queries()
        main(draw_map(), images[test], places.positions[test])
