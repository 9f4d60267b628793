"""Style and output files of figures."""

from pathlib import Path

import pytest
from PIL import Image

from mappable.errors import BadInputError
from mappable.evaluation.rows import ROWS
from mappable.evaluation.style import look_of, new_figure, number, save
from mappable.plotting import plain


def test_all_rows_look_different_and_as_in_the_paper() -> None:
    looks = {row: look_of(row) for row in ROWS}
    assert len(set(looks.values())) == len(ROWS)
    for row, look in looks.items():
        geometric_or_none = not ROWS[row].visual
        assert look.line == (":" if geometric_or_none else "-" if ROWS[row].combined else "--")
        assert look.hollow == row.endswith("-ours")
        assert bool(look.mark) == (ROWS[row].combined or look.hollow)  # nothing would be visible without it
    assert look_of("mine", 0) != look_of("yours", 1)


@pytest.mark.medium
def test_the_same_figure_is_written_as_the_same_bytes(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        figure = new_figure(1.0)
        figure.suptitle(plain("for $5 in 東京"))
        files = save(figure, tmp_path / folder, "one")
    assert [file.name for file in files] == ["one.png", "one.svg"]
    for file in files:
        assert file.read_bytes() == (tmp_path / "a" / file.name).read_bytes()
    with Image.open(files[0]) as picture:
        assert picture.size == (1350, 150)
    assert "<svg" in files[1].read_text()


def test_a_folder_that_cannot_be_written_raises(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInputError, match=r"file/one\.png.*written"):
        save(new_figure(1.0), tmp_path / "file", "one")


def test_numbers() -> None:
    assert [number(value) for value in (0.826, None, float("nan"))] == ["0.83", "–", "–"]
