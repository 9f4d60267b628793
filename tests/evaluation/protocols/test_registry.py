"""All protocols together: figures, results on disk, and how to add a protocol."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from mappable.arrays import Floats, Ints
from mappable.errors import BadInputError
from mappable.evaluation import report
from mappable.evaluation.models import Model
from mappable.evaluation.protocol import Drawing, Images, Protocol, Section, View
from mappable.evaluation.protocols import PROTOCOLS
from mappable.evaluation.records import Arrays, to_json
from mappable.evaluation.report import draw_all, drawings, write_report
from mappable.evaluation.result import RESULT, Result
from mappable.evaluation.scoring import Scoring, retrieval
from mappable.evaluation.setup import Setup
from mappable.evaluation.style import new_figure
from mappable.evaluation.tables import Column, table


@pytest.mark.medium
def test_existing_results_are_drawn(
    results: list[Result], setup: Setup, images: Images, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "save", lambda figure, folder, name: [folder / f"{name}.png", figure])
    drawn, _ = draw_all(results[:1], setup, images, tmp_path)
    assert drawn["table1"] == tmp_path / "table1.png"
    assert set(drawn) == {one.name for one in drawings()}
    one = replace(results[0], scored={"curves": results[0].scored["curves"]})
    assert list(draw_all([one], setup, images, tmp_path)[0]) == ["curves"]


def written(result: Result) -> tuple[object, Arrays]:
    arrays: Arrays = {}
    return {name: to_json(one, arrays, name) for name, one in result.scored.items()}, arrays


def test_results_are_read_as_they_were_written(results: list[Result], tmp_path: Path) -> None:
    results[0].save(tmp_path)
    again = Result.load(tmp_path)
    np.testing.assert_equal(written(again), written(results[0]))
    assert {name: type(one) for name, one in again.scored.items()} == {
        name: PROTOCOLS[name].kind for name in results[0].scored
    }


def test_a_result_of_an_earlier_version_or_with_another_type_raises(
    results: list[Result], tmp_path: Path, rewrite: Callable[..., None]
) -> None:
    results[0].save(tmp_path)
    facts = json.loads((tmp_path / RESULT).read_text())
    rewrite(tmp_path / RESULT, facts | {"version": 1})
    with pytest.raises(BadInputError, match=r"result\.json.*earlier version.*1.*evaluate again"):
        Result.load(tmp_path)
    for name, value in (("positive", "many"), ("recall", [1]), ("errors", {"array": "table1/queries"})):
        table1 = facts["protocols"]["table1"] | {name: value}
        rewrite(tmp_path / RESULT, facts | {"protocols": {"table1": table1}})
        with pytest.raises(BadInputError, match=r"result\.json"):
            Result.load(tmp_path)


# A new protocol: a module with a result, its score, its table and its figure; and a line in PROTOCOLS


@dataclass(frozen=True)
class Farthest:
    """The largest error of a query."""

    query: int  # row of the table
    metres: float
    errors: Floats
    landmarks: Ints | None


def score(scoring: Scoring) -> Farthest:
    landmarks, queries = scoring.landmarks(), scoring.setup.queries
    at = scoring.setup.places.positions
    errors = np.linalg.norm(at[queries] - at[scoring.nearest(landmarks)[:, 0]], axis=1)
    return Farthest(int(queries[errors.argmax()]), float(errors.max()), errors, None)


def sections(view: View, models: list[Model]) -> list[Section]:
    worst = [model.spread(Farthest, lambda one: one.metres) for model in models]
    shown = table("farthest", Column("Model", [model.title for model in models]), Column("Worst error", worst))
    return [Section("farthest", "The worst query", ["How far off it is."], [shown], ("farthest",))]


def draw(view: View) -> Figure:
    figure = new_figure(1.0)
    figure.add_subplot().plot(view.drawn(Farthest)[0].first(Farthest).errors)
    return figure


DRAWING = Drawing("farthest", "All errors of a model.", draw)
FARTHEST = Protocol("farthest", Farthest, retrieval, score, sections, (DRAWING,))


@pytest.mark.medium
def test_a_new_protocol_is_in_the_report(
    results: list[Result], setup: Setup, images: Images, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PROTOCOLS, "farthest", FARTHEST)
    found = Farthest(int(setup.queries[0]), 12.5, np.arange(3.0), None)
    replace(results[0], scored={"farthest": found}).save(tmp_path / "result")
    result = Result.load(tmp_path / "result")
    figures, failed = draw_all([result], setup, images, tmp_path / "figures")
    assert not failed
    page = write_report([result], setup, figures, tmp_path, command="").read_text("utf-8")
    assert "12.5" in page
    assert "All errors of a model." in page
    told = json.loads((tmp_path / "report.json").read_text())["sections"][0]
    assert told["tables"]["farthest"]["rows"] == [["Off-the-shelf", {"mean": 12.5, "std": None}]]
