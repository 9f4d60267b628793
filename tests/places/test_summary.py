"""Summaries: numbers that a person would count by hand, and warnings about what looks wrong."""

import numpy as np
import pytest
from PIL import Image

from mappable.places.frames import Frame
from mappable.places.notes import Note
from mappable.places.picture import draw_map
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
    assert [note.text.partition(",")[0] for note in summary.notes] == ["all images are of one visit ('drive')"]


def test_z_counts_in_lengths_only_with_three_dimensions() -> None:
    ramp = drive(z=np.arange(40) * 1.5, x=np.arange(40) * 2.0)
    assert summarize(ramp).sequences[0].length == 78.0
    assert summarize(ramp.replace(dimensions=3)).sequences[0].length == 39 * 2.5


def test_the_tables_own_notes_come_first() -> None:
    note = Note("images without GPS", ("a.jpg",))
    assert summarize(drive().noting(note)).notes[0] == note


@pytest.mark.medium
def test_the_map_picture_is_an_image_with_ink_on_it(tmp_path: object) -> None:
    two = drive(condition=["sun"] * 20 + ["night"] * 20, yaw=np.zeros(40))
    draw_map(two, f"{tmp_path}/map.png")
    with Image.open(f"{tmp_path}/map.png") as picture:
        pixels = np.asarray(picture.convert("RGB")).reshape(-1, 3).astype(int)
    for color in ((0x00, 0x72, 0xB2), (0xD5, 0x5E, 0x00)):
        assert (np.abs(pixels - color).sum(axis=1) < 60).sum() > 50
