"""What every protocol promises: its result, its section, its figures, and what it does with bad descriptors."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from made_results import Numbered, measured
from mappable.arrays import Floats, Ints
from mappable.errors import BadInputError
from mappable.evaluation.figure import new_figure
from mappable.evaluation.models import Model
from mappable.evaluation.protocol import (
    Drawing,
    Images,
    NothingToDrawError,
    Protocol,
    Section,
    View,
)
from mappable.evaluation.protocols import PROTOCOLS, protocols_named
from mappable.evaluation.records import from_json, to_json
from mappable.evaluation.report import failures_of, write_report
from mappable.evaluation.result import RESULT, Result
from mappable.evaluation.scoring import Descriptors, Scoring, retrieval
from mappable.evaluation.setup import Setup
from mappable.evaluation.tables import Column, table

pytestmark = pytest.mark.medium


def test_every_protocol_has_a_result_a_section_and_its_figures(
    results: list[Result], setup: Setup, images: Images
) -> None:
    for result in results:
        assert set(result.scored) == set(PROTOCOLS), {**result.skipped, **result.failed}
    view = View(results, setup, images)
    for name, protocol in PROTOCOLS.items():
        section = protocol.report(view, view.models(protocol.kind))
        assert section.name == name
        assert any(one.shown for one in section.tables) or section.figures
        assert set(section.figures) <= {one.name for one in protocol.drawings}
        for shown in section.tables:
            assert len({len(column.cells) for column in shown.columns}) <= 1
            json.dumps(shown.to_json(), allow_nan=False)
        for drawing in protocol.drawings:
            assert drawing.draw(view).axes
            with pytest.raises(NothingToDrawError):
                drawing.draw(View([replace(results[0], scored={})], setup, images))


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_protocol_reads_only_the_rows_it_requests_and_its_result_is_json(
    scoring: Scoring, name: str
) -> None:
    """Descriptors exist only for the requested rows; a read of another row would fail."""
    rows = np.unique(PROTOCOLS[name].rows(scoring.setup))
    few = replace(
        scoring,
        descriptors=replace(scoring.descriptors, rows=rows, values=scoring.descriptors[rows]),
    )
    whole = measured(scoring, "triplet", 0, [name])
    if name not in ("timing", "home-and-away"):  # these describe images
        again = measured(few, "triplet", 0, [name])
        np.testing.assert_equal(to_json(again.scored), to_json(whole.scored))
    written = json.loads(json.dumps(to_json(whole.scored[name])))
    np.testing.assert_equal(to_json(from_json(PROTOCOLS[name].kind, written)), written)


@pytest.mark.parametrize("kind", ["random", "constant"])
def test_every_protocol_handles_meaningless_descriptors(
    kind: str, scoring: Scoring, tmp_path: Path
) -> None:
    count = len(scoring.setup.places)
    made = np.random.default_rng(5).normal(size=(count if kind == "random" else 1, 48))
    values = np.tile(
        made / np.linalg.norm(made, axis=1, keepdims=True), (1 if kind == "random" else count, 1)
    )
    about = replace(scoring.about, feature_scale_squared=None)
    nothing = replace(
        scoring,
        about=about,
        descriptors=Descriptors(np.arange(count), values.astype(np.float32), "no"),
    )
    result = measured(nothing, "off-the-shelf", 0)
    assert not result.failed
    assert set(result.skipped) <= {"map-recovery"}  # where no two images are near
    page = write_report([result], scoring.setup, Numbered().read, tmp_path, command="")
    assert failures_of(page) == []


def test_protocols_by_name() -> None:
    with pytest.raises(BadInputError, match=r"'table2'.*table1"):
        protocols_named(["table2"])
    assert [one.name for one in protocols_named(["curves", "table1"])] == ["table1", "curves"]


# Results on disk


def test_results_are_read_as_they_were_written(results: list[Result], tmp_path: Path) -> None:
    results[0].save(tmp_path)
    np.testing.assert_equal(to_json(Result.load(tmp_path)), to_json(results[0]))
    assert [file.name for file in tmp_path.iterdir()] == [RESULT]


def test_a_result_of_an_earlier_version_or_with_another_type_raises(
    results: list[Result], tmp_path: Path, rewrite: Callable[..., None]
) -> None:
    replace(results[0], scored={"table1": results[0].scored["table1"]}).save(tmp_path)
    facts = json.loads((tmp_path / RESULT).read_text())
    table1 = facts["scored"]["table1"]
    wrong = [facts | {"version": 1}]
    for name, value in (("positive", "many"), ("recall", [1]), ("errors", table1["queries"])):
        wrong.append(facts | {"scored": {"table1": table1 | {name: value}}})
    for changed in wrong:
        rewrite(tmp_path / RESULT, changed)
        with pytest.raises(BadInputError, match=r"result\.json"):
            Result.load(tmp_path)


# A new protocol: a module with a result, `run`, `report` and `draw`; and a line in PROTOCOLS


@dataclass(frozen=True)
class Farthest:
    """The largest error of a query."""

    query: int  # row of the table
    errors: Floats
    landmarks: Ints | None


def run(scoring: Scoring) -> Farthest:
    at, queries = scoring.setup.places.positions, scoring.setup.queries
    errors = np.linalg.norm(at[queries] - at[scoring.nearest(scoring.landmarks())[:, 0]], axis=1)
    return Farthest(int(queries[errors.argmax()]), errors, None)


def report(view: View, models: list[Model]) -> Section:
    worst = [model.spread(Farthest, lambda one: float(one.errors.max())) for model in models]
    shown = table(
        "farthest", Column("Model", [model.title for model in models]), Column("Worst error", worst)
    )
    return Section("farthest", "The worst query", ["How far off it is."], [shown], ("farthest",))


def draw(view: View) -> object:
    figure = new_figure(1.0)
    figure.add_subplot().plot(view.drawn(Farthest)[0].first(Farthest).errors)
    return figure


DRAWING = Drawing("farthest", "All errors of a model.", draw)  # type: ignore[arg-type]
FARTHEST = Protocol("farthest", Farthest, retrieval, run, report, (DRAWING,))


def test_a_new_protocol_is_in_the_report(
    scoring: Scoring, images: Images, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PROTOCOLS, "farthest", FARTHEST)
    measured(scoring, "triplet", 0, ["farthest"]).save(tmp_path / "result")
    result = Result.load(tmp_path / "result")
    page = write_report([result], scoring.setup, images, tmp_path, command="")
    assert failures_of(page) == []
    assert DRAWING.caption in page.read_text("utf-8")
    told = next(
        one
        for one in json.loads((tmp_path / "report.json").read_text())["sections"]
        if one["tables"]
    )
    worst = float(run(scoring).errors.max())
    assert told["tables"]["farthest"]["rows"] == [
        ["Triplet", {"mean": pytest.approx(worst), "std": None}]
    ]
