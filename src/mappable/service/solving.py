"""Recover a trajectory; the server does so in a process of its own, because it is slow and holds Python's lock."""

from mappable.recovery.hints import Anchors
from mappable.recovery.pipeline import recover
from mappable.recovery.ranges import Ranges
from mappable.recovery.report import Report, report
from mappable.recovery.result import Recovered


def solve(
    ranges: Ranges, anchors: Anchors | None, dimensions: int, ordered: bool
) -> tuple[Recovered, Report]:
    """The positions, and what the ranges leave undetermined."""
    recovered = recover(ranges, dimensions, anchors=anchors, ordered=ordered, assume_steps=True)
    return recovered, report(ranges, recovered, anchors=anchors)
