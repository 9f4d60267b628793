"""Summarize a recovery: its input, what stays undetermined, and its score if the truth is known."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from scipy.spatial import KDTree

from mappable.arrays import Bools, Floats
from mappable.errors import BadInputError
from mappable.recovery.align import Score, aligned_score, score
from mappable.recovery.baselines import trivial_rows
from mappable.recovery.hints import Anchors
from mappable.recovery.ranges import Ranges
from mappable.recovery.result import Recovered

RIGID = "aligned, scale as measured"


@dataclass(frozen=True)
class Nearness:
    """How well ranges select the pairs of points that truly are near each other."""

    radius: float  # metres: a pair within this distance is near
    precision: float  # share of the ranges that join near points
    recall: float  # share of the pairs of near points that have a range

    def __str__(self) -> str:
        return (
            f"{100 * self.precision:.1f} % of the ranges join points within {self.radius:.1f} m"
            f" (precision), and {100 * self.recall:.1f} % of all pairs within {self.radius:.1f} m"
            " have a range (recall)"
        )


@dataclass(frozen=True)
class Report:
    """A recovery in numbers and sentences."""

    points: int
    dimensions: int
    ranges: int
    thrown_out: int  # number of ranges that were removed as false
    parts: tuple[int, ...]  # number of points per connected part, the largest first
    known: int  # number of known positions
    assumed: int  # number of assumed steps: no range joins these images to the next
    noise: float | None  # spread of the residuals in units of the stated sigma
    undetermined: tuple[str, ...]
    nearness: Nearness | None = None
    scored: int = 0  # number of points of the largest part whose truth is known
    # Score by row name, the trivial baselines last.
    scores: dict[str, Score] = field(default_factory=dict)

    def lines(self) -> Iterator[str]:
        """Yield the report as lines of text."""
        parts = (
            "1 part"
            if len(self.parts) == 1
            else f"{len(self.parts):,} parts that no range connects"
        )
        yield (
            f"{self.points:,} points in {self.dimensions} dimensions, {self.ranges:,} ranges,"
            f" {parts}"
        )
        if self.known:
            yield f"{self.known:,} position{' was' if self.known == 1 else 's were'} known"
        if self.assumed:
            yield f"{self.assumed:,} step{' was' if self.assumed == 1 else 's were'} assumed"
        if self.thrown_out:
            yield (
                f"{self.thrown_out:,} range{' was' if self.thrown_out == 1 else 's were'} removed"
                " as false"
            )
        if self.noise is not None:
            yield f"noise: {self.noise:.2f} times the stated sigma"
        if self.undetermined:
            yield "undetermined:"
        for sentence in self.undetermined:
            yield f"  - {sentence}"
        if self.nearness is not None:
            yield str(self.nearness)
        if self.scores:
            yield (
                f"{self.scored:,} points scored; below the line are trivial baselines, which use no"
                " ranges"
            )
            width = max(map(len, self.scores)) + 2
            for name, one in self.scores.items():
                if name == "point":
                    yield "  " + "-" * (width + 60)
                yield f"  {name:<{width}}{one}"


def report(
    ranges: Ranges,
    recovered: Recovered,
    *,
    anchors: Anchors | None = None,
    truth: Floats | None = None,
    radius: float | None = None,
) -> Report:
    """Report a recovery; `truth` (n, k) is NaN for points whose position is not known.

    A pair is near within `radius` metres (default: the longest range).
    """
    placed = np.isfinite(recovered.positions).all(1)
    facts = Report(
        points=ranges.count,
        dimensions=recovered.positions.shape[1],
        ranges=len(ranges),
        thrown_out=int((~recovered.used).sum()),
        parts=tuple(np.bincount(recovered.parts[placed]).tolist()) if placed.any() else (),
        known=0 if anchors is None else len(anchors.points),
        assumed=recovered.assumed,
        noise=recovered.noise if np.isfinite(recovered.noise) else None,
        undetermined=recovered.undetermined,
    )
    if truth is None:
        return facts
    scored: Bools = placed & (recovered.parts == 0) & np.isfinite(truth).all(1)
    if scored.sum() < 2:
        raise BadInputError(
            "a score needs true positions of at least two recovered points, got"
            f" {int(scored.sum())}"
        )
    nearness = _nearness(
        ranges, truth, radius if radius is not None else float(ranges.metres.max(initial=0.0))
    )
    scores = _scores(recovered.positions[scored], truth[scored], _among(anchors, scored))
    return Report(
        **(vars(facts) | {"nearness": nearness, "scored": int(scored.sum()), "scores": scores})
    )


def _among(anchors: Anchors | None, chosen: Bools) -> Anchors | None:
    """Return the known positions of chosen points (n,), which are numbered from 0."""
    if anchors is None or not chosen[anchors.points].any():
        return None
    kept = chosen[anchors.points]
    numbers = np.cumsum(chosen) - 1
    return Anchors(numbers[anchors.points[kept]], anchors.positions[kept], anchors.sigma[kept])


def _scores(positions: Floats, truth: Floats, anchors: Anchors | None) -> dict[str, Score]:
    if anchors is not None:
        return {"in the map's coordinates": score(positions, truth)} | trivial_rows(truth, anchors)
    return {
        "aligned, scale free": aligned_score(positions, truth),
        RIGID: aligned_score(positions, truth, scale=False),
    } | trivial_rows(truth)


def _nearness(ranges: Ranges, truth: Floats, radius: float) -> Nearness | None:
    known = np.isfinite(truth[:, 0])
    both = known[ranges.i] & known[ranges.j]
    near = np.linalg.norm(truth[ranges.i[both]] - truth[ranges.j[both]], axis=1) <= radius
    tree = KDTree(truth[known])
    pairs = (int(tree.count_neighbors(tree, radius)) - int(known.sum())) // 2
    return (
        Nearness(radius, float(near.mean()), float(near.sum() / pairs))
        if len(near) and pairs
        else None
    )
