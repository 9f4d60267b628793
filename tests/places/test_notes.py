"""Notes: counted, listed and carried along."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappable.places.notes import Note, count_beside_paper, warn


def test_a_note_counts_its_items() -> None:
    assert str(Note("images without GPS", ("a.jpg",) * 1234)) == "1,234 images without GPS"
    assert str(Note("times are in seconds")) == "times are in seconds"


def test_a_note_lists_its_first_items_and_says_how_many_are_left() -> None:
    note = Note("bad names", ("a", "b", "c"))
    assert note.lines(most=3) == ["3 bad names", "  a", "  b", "  c"]
    assert note.lines(most=1) == ["3 bad names", "  a", "  and 2 more"]
    assert note.lines(most=0) == ["3 bad names", "  and 3 more"]
    assert Note("plain").lines() == ["plain"]
    assert len(Note("many", tuple(map(str, range(2000)))).lines()) == 7


def test_a_warning_about_nothing_is_no_warning() -> None:
    assert warn("bad names", []) == ()
    assert warn("bad names", (name for name in "ab")) == (Note("bad names", ("a", "b"), warning=True),)


@pytest.mark.medium
@given(st.builds(Note, st.text(), st.lists(st.text()).map(tuple), st.booleans()))
def test_json_loses_nothing(note: Note) -> None:
    assert Note.from_json(json.loads(json.dumps(note.to_json()))) == note


def test_counts_stand_beside_the_paper_s() -> None:
    note = count_beside_paper([("train", 15_000, 15_006), ("test", 3, 12_329)])
    assert str(note) == "train 15,000 images (paper: 15,006); test 3 images (paper: 12,329)"
    assert not note.warning
