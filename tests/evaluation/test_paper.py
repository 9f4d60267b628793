"""The paper's numbers: complete, named as rows are, and consistent with each other."""

import pytest

from mappable.evaluation import paper, rows


@pytest.mark.parametrize("name", ["cold", "oxford"])
def test_every_row_of_the_table_is_there(name: str) -> None:
    assert list(paper.TABLE_1[name]) == [row.name for row in rows.TABLE_1]
    assert all(0 < one.positive <= one.negative < 100 for one in paper.TABLE_1[name].values())


@pytest.mark.parametrize("name", ["cold", "oxford"])
def test_combinations_beat_their_visual_loss_in_its_table(name: str) -> None:
    table = paper.TABLE_1[name]
    combined = [row for row in rows.TABLE_1 if row.combined]
    assert len(combined) == 4
    assert all(table[row.name].positive > table[row.pure].positive for row in combined)
    assert name == "oxford" or all(table[row.name].negative >= 99.6 for row in combined)


@pytest.mark.parametrize("name", ["cold", "oxford"])
def test_times_add_up(name: str) -> None:
    steps = paper.TIMING[name]
    assert steps["describe"].mean + steps["kd-tree"].mean == pytest.approx(steps["total"].mean)


def test_errors_of_maps_match_their_percentages() -> None:
    for error in paper.RECOVERY["oxford"].values():
        assert round(100 * error.metres / paper.RECOVERY_LENGTH, 2) == error.percent


def test_correlations_name_known_rows() -> None:
    assert paper.PEARSON["cold"].keys() <= rows.ROWS.keys()
