"""Functions that several commands share."""

from pathlib import Path

import pytest

from mappable.cli.common import load_queries
from mappable.places.files import save_places
from mappable.places.frames import Frame
from mappable.places.table import Places


def test_queries_of_a_table_are_taken_and_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    roles = ["reference", "query", "reference", "query", "query"]
    places = Places(path=[f"{row}.jpg" for row in range(5)], x=range(5), y=range(5), role=roles, frames=Frame("town"))
    save_places(places, tmp_path / "places.parquet")
    assert load_queries(tmp_path).path.tolist() == ["1.jpg", "3.jpg", "4.jpg"]
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "3 queries; 2 references left out" in shown.err
