"""Summaries: numbers that a person would count by hand, and warnings about what looks wrong."""

import numpy as np

from mappable.places.frames import Frame
from mappable.places.summary import summarize
from mappable.places.table import Places


def drive(step: float = 2.0, count: int = 40, **columns: object) -> Places:
    """A straight drive along x with one image a second."""
    fields: dict[str, object] = {
        "path": [f"{number}.jpg" for number in range(count)],
        "x": np.arange(count) * step,
        "y": np.full(count, 5.0),
        "time": np.arange(count) * 1_000_000_000,
        "sequence": "drive",
        "condition": "sun",
        "split": "train",
        "frames": Frame("town"),
    }
    return Places(**(fields | columns))


def test_counts_extent_spacing_and_duration() -> None:
    summary = summarize(drive())
    (sequence,) = summary.sequences
    assert (sequence.sequence, sequence.places, sequence.length) == ("drive", 40, 78.0)
    assert (sequence.spacing, sequence.duration_s) == (2.0, 39.0)
    (frame,) = summary.frames
    assert (frame.unit, frame.low, frame.high) == ("m", (0.0, 5.0), (78.0, 5.0))
    assert summary.conditions == {"sun": 40}
    assert summary.splits == {"train": 40}
    assert (summary.with_yaw, summary.with_time) == (0, 40)
    assert [note.text.partition(",")[0] for note in summary.notes] == [
        "all images are of one visit ('drive')"
    ]
