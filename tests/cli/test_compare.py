"""`mappable compare`: the table, the JSON and the errors."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import Result as Run

from made_results import made_result
from mappable.errors import BadInputError


@pytest.fixture
def results(tmp_path: Path) -> list[Path]:
    """Result folders of the off-the-shelf encoder, which finds 30 of 60 queries, and of one that
    finds 54.
    """
    folders = []
    for name, right in (("off-the-shelf", 30), ("mine [v2]", 54)):
        errors = np.where(np.arange(60) % 30 < right // 2, 4.0, 40.0)
        result = made_result(
            errors,
            {"recall": {"1": 100 * right / 60, "5": 95.0, "10": 96.0, "20": 97.0}},
            row=name,
            title=name,
            conditions=np.array(["sun"] * 15 + ["rain"] * 45, dtype=object),
            blocks=np.arange(60) % 10,
        )
        folders.append(tmp_path / name.split()[0])
        result.save(folders[-1])
    return folders


def test_a_table_of_models(mappable: Callable[..., Run], results: list[Path]) -> None:
    printed = mappable("compare", *results)
    assert printed.exit_code == 0, printed.output
    lines = [line.split() for line in printed.stdout.splitlines() if line.strip()]
    assert lines[0] == ["60", "queries"]
    assert (
        " ".join(lines[1])
        == "model set seeds % within 10 m % within 25 m median m recall@1 recall@5 recall@10"
        " difference 95 % interval to the first"
    )
    assert lines[3] == [
        "off-the-shelf",
        "street",
        "1",
        "50.00",
        "50.00",
        "22.00",
        "50.00",
        "95.00",
        "96.00",
    ]
    assert lines[4][2:11] == [
        "street",
        "1",
        "90.00",
        "90.00",
        "4.00",
        "90.00",
        "95.00",
        "96.00",
        "+40.00",
    ]
    assert (lines[4][:2], lines[4][12], lines[4][-1]) == (["mine", "[v2]"], "to", "better")
    assert len(lines) == 5


def test_refusals_are_one_sentence(
    mappable: Callable[..., Run], results: list[Path], tmp_path: Path
) -> None:
    for arguments, parts in (
        ([results[0]], ["two", "1"]),
        ([results[0], tmp_path / "none"], [str(tmp_path / "none"), "result.json"]),
    ):
        printed = mappable("compare", *arguments)
        assert isinstance(printed.exception, BadInputError)
        assert "\n" not in str(printed.exception)
        for part in parts:
            assert part in str(printed.exception)
