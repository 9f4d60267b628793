"""Regions that no model trained on."""

from collections.abc import Mapping, Sequence

import numpy as np

from mappable.evaluation import paper
from mappable.evaluation.rows import OFF_THE_SHELF, OURS, ROWS
from mappable.evaluation.sections.view import BOUND, Model, Section, View, counted
from mappable.evaluation.summary import Spread
from mappable.evaluation.tables import Cell, Column, Table, table


def generalisation(view: View, models: list[Model]) -> Section:
    """Means over models of a kind, as the paper prints them, and each model."""
    sentences = [
        f"Other places, with a map of one reference run each: percent of the queries found within {view.positive}. "
        "Landmarks are one positive radius apart along the run, and 1.25 times that.",
    ]
    groups: dict[str, list[Model]] = {}
    for model in models:
        groups.setdefault(_kind(model.row), []).append(model)
    single = _regions(view, {model.title: [model] for model in models}, folded=len(groups) < len(models))
    tables = [single]
    if single.folded:
        sentences.append("As in the paper, numbers are means over all models of a kind.")
        titles = {f"{kind} ({counted(len(of), 'model', 'models')})": of for kind, of in groups.items()}
        tables.insert(0, _regions(view, titles, printed=paper.GENERALISATION.get(view.setup.name, {})))
    return Section("generalisation", "Generalisation", sentences, tables)


def _regions(
    view: View,
    groups: Mapping[str, list[Model]],
    *,
    printed: Mapping[str, Mapping[str, paper.Models]] | None = None,
    folded: bool = False,
) -> Table:
    """A column a region and spacing, and a row a group of models, then what the paper has, the bound and landmarks."""
    protocol = "generalisation"
    names = ["Paper, visual", "Paper, combined"] if printed else []
    columns = [Column("Model" if printed is None else "Loss", [*groups, *names, BOUND, "Landmarks"])]
    for region, spacings in next(iter(groups.values()))[0].values(protocol)["regions"].items():
        for factor, facts in spacings.items():
            cells: list[Cell] = []
            for of in groups.values():
                means = [model.mean(protocol, "regions", region, factor, "positive") for model in of]
                cells.append(means[0] if len(means) == 1 else _mean(means))
            own = (printed or {}).get(region, {}).get(factor)
            cells += [own and own.visual, own and own.combined] if printed else []
            title = f"{facts['spacing']:g} {view.unit} apart"
            columns.append(Column(title, [*cells, facts["bound"], facts["landmarks"]], group=region))
    return table(
        "generalisation-of-models" if folded else protocol,
        *columns,
        caption="Each model" if folded else "",
        references=2 + len(names),
        folded=folded,
    )


def _mean(spreads: Sequence[Spread | None]) -> float | None:
    known = [one.mean for one in spreads if one is not None]
    return float(np.mean(known)) if known else None


def _kind(row: str) -> str:
    """What kind of loss a row has, as the paper groups them."""
    if row not in ROWS or row == OFF_THE_SHELF:
        return "Off-the-shelf" if row == OFF_THE_SHELF else "Others"
    kind = "Combined" if ROWS[row].combined else "Visual" if ROWS[row].visual else "Geometric"
    return f"{kind} (ours)" if row.endswith(OURS) else kind
