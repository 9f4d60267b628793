"""Draw a recovery: distance matrices and trajectories."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mappable.arrays import Floats, Ints, evenly
from mappable.errors import BadInputError
from mappable.plotting import (
    EMPTY,
    GRAY,
    SHADES,
    VERMILION,
    check_suffix,
    new_figure,
    plain,
    plain_axes,
    write_figure,
)
from mappable.recovery.align import align
from mappable.recovery.ranges import Ranges
from mappable.recovery.result import Recovered

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MATRIX_POINTS = 300  # the matrices show at most this many points
ELLIPSES = 100  # approximate number of covariance ellipses
CHI_SQUARED_95 = 5.991  # 95 % quantile for two degrees of freedom
TRUE, KNOWN = GRAY, VERMILION


def draw_recovery(
    file: Path | str,
    ranges: Ranges,
    recovered: Recovered,
    *,
    truth: Floats | None = None,
    anchors: Ints | None = None,
    title: str = "",
) -> None:
    """Write a picture (PNG, SVG or PDF by suffix) of the largest recovered part.

    The upper row shows matrices of measured distances (gray if not measured), of recovered
    distances and, if `truth` (n, k) is given, of true distances. With many points, the matrices
    show a sample of them.

    The lower row shows the trajectory from above, colored by time, and the true trajectory in gray.
    If covariances are known, ellipses show where each position lies with 95 % probability.
    `anchors` has the numbers of the known points; without it, rotation, shift, mirror and scale
    align the trajectory to the truth.
    """
    check_suffix(file)
    shown = (recovered.parts == 0) & np.isfinite(recovered.positions).all(1)
    if truth is not None:
        shown &= np.isfinite(truth).all(1)
    points = np.flatnonzero(shown)
    if len(points) < 2:
        raise BadInputError(f"{file}: a figure needs at least two points, got {len(points)}")
    positions = recovered.positions[points]
    true = None if truth is None else truth[points]
    if true is not None and anchors is None:
        positions = align(positions, true)(positions)

    matrices = _matrices(ranges, points, positions, true)
    figure = new_figure(4.2 * len(matrices) + 0.9, 9.6)
    grid = figure.add_gridspec(2, len(matrices), height_ratios=(1.0, 1.35))
    top = [figure.add_subplot(grid[0, column]) for column in range(len(matrices))]
    longest = max(float(np.nanmax(matrix)) for matrix in matrices.values())
    for axes, (name, matrix) in zip(top, matrices.items(), strict=True):
        image = draw_matrix(axes, matrix, name, longest, len(points))
    figure.colorbar(image, ax=top, label="distance [m]", shrink=0.85)
    below = figure.add_subplot(grid[1, :])
    _draw_paths(below, points, positions, true, anchors)
    if recovered.covariances is not None:
        _draw_ellipses(below, positions, recovered.covariances[points])
    below.legend(
        loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=4, frameon=False, borderaxespad=0.2
    )
    if title:
        figure.suptitle(plain(title), fontsize=12)
    write_figure(figure, file)


def _matrices(
    ranges: Ranges, points: Ints, positions: Floats, truth: Floats | None
) -> dict[str, Floats]:
    """Return distance matrices in metres of a sample of the points, NaN if unknown."""
    sample = evenly(len(points), MATRIX_POINTS, nearest=True)
    between = ranges.among(points[sample])
    measured = np.full((len(sample), len(sample)), np.nan)
    measured[between.i, between.j] = measured[between.j, between.i] = between.metres
    np.fill_diagonal(measured, 0.0)
    matrices = {"measured": measured, "recovered": _distances(positions[sample])}
    return matrices if truth is None else matrices | {"true": _distances(truth[sample])}


def _distances(positions: Floats) -> Floats:
    distances: Floats = np.linalg.norm(positions[:, None] - positions, axis=2)
    return distances


def draw_matrix(axes: "Axes", matrix: Floats, name: str, longest: float, count: int) -> Any:
    """Draw distances between a sample of `count` points, gray where they are NaN, and return the
    image.
    """
    axes.set_facecolor(EMPTY)
    image = axes.imshow(
        matrix,
        cmap=SHADES,
        vmin=0,
        vmax=longest,
        extent=(0, count, count, 0),
        interpolation="nearest",
    )
    known = np.isfinite(matrix[np.triu_indices(len(matrix), 1)]).mean()
    axes.set_title(name if known == 1 else f"{name}: {100 * known:.1f} % of the pairs", fontsize=11)
    axes.set_xlabel("image")
    return image


def _draw_paths(
    axes: "Axes", points: Ints, positions: Floats, truth: Floats | None, anchors: Ints | None
) -> None:
    dots = draw_path(axes, points, positions, truth)
    if anchors is not None:
        known = positions[np.isin(points, anchors)]
        axes.scatter(
            known[:, 0],
            known[:, 1],
            marker="^",
            s=70,
            color=KNOWN,
            edgecolors="white",
            label="known",
            zorder=4,
        )
    axes.figure.colorbar(dots, ax=axes, label="image, in order", shrink=0.85)
    axes.set_title(
        "trajectory" + (", from above" if positions.shape[1] == 3 else ""), fontsize=11, loc="left"
    )


def draw_path(axes: "Axes", points: Ints, positions: Floats, truth: Floats | None) -> Any:
    """Draw positions from above as dots colored by point number, and the truth in gray; return the
    dots.
    """
    if truth is not None:
        axes.plot(
            truth[:, 0], truth[:, 1], color=TRUE, linewidth=5, alpha=0.55, label="true", zorder=1
        )
    size = float(np.clip(6000 / len(points), 3, 22))
    dots = axes.scatter(
        positions[:, 0], positions[:, 1], c=points, cmap=SHADES, s=size, linewidths=0, zorder=3
    )
    axes.plot(
        positions[:, 0],
        positions[:, 1],
        color="#333333",
        linewidth=0.6,
        alpha=0.6,
        label="recovered",
        zorder=2,
    )
    axes.set_aspect("equal", adjustable="datalim")
    axes.set_xlabel("x [m]")
    axes.set_ylabel("y [m]")
    plain_axes(axes)
    return dots


def _draw_ellipses(axes: "Axes", positions: Floats, covariances: Floats) -> None:
    """Draw ellipses that contain a position with 95 % probability, for a sample of the points."""
    from matplotlib.collections import EllipseCollection

    sample = np.arange(0, len(positions), max(1, len(positions) // ELLIPSES))
    variances, directions = np.linalg.eigh(covariances[sample, :2, :2])
    sizes = 2 * np.sqrt(CHI_SQUARED_95 * np.maximum(variances, 0.0))
    angles = np.degrees(np.arctan2(directions[:, 1, 1], directions[:, 0, 1]))
    ellipses = EllipseCollection(
        sizes[:, 1], sizes[:, 0], angles, units="xy", offsets=positions[sample, :2], offset_transform=axes.transData,
        facecolors=KNOWN, alpha=0.2, linewidths=0, zorder=1.5,
    )  # fmt: skip
    axes.add_collection(ellipses)
    axes.fill([], [], color=KNOWN, alpha=0.3, linewidth=0, label="95 %")
