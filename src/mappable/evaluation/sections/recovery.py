"""Maps drawn from feature distances alone."""

from typing import Any

from mappable.evaluation import paper
from mappable.evaluation.figures.models import best_of, models_of
from mappable.evaluation.sections.view import Model, Section, View
from mappable.evaluation.summary import Spread
from mappable.evaluation.tables import Column, Table, cell_text, table

KNOWN, STEADY = "calibrated ranges and known positions", "a steady pace between known positions"
ALIKE = 0.95  # an error so near to another, relative to it, is called no better
KINDS = {"paper": "the paper's way"}


def map_recovery(view: View, models: list[Model]) -> Section:
    """All methods with the features of the best model, which the figure shows too; other models are folded."""
    protocol = "map-recovery"
    best = best_of(models_of(view.results, protocol)).row
    shown = next(model for model in models if model.row == best)
    facts = shown.values(protocol)
    sentences = [
        f"A map drawn from feature distances alone: {facts['images']} images along {facts['length']:,.0f} {view.unit} "
        f"of {facts['sequence']}, {facts['repetitions']} times, with the features of {shown.title}. Errors are root "
        "mean squares after the best alignment, of which rigid ones keep the scale that was found; where positions are "
        "known, nothing is aligned.",
        "The trivial rows need no image: a result means something only beside them.",
    ]
    sentences += _verdicts(facts["rows"])
    mask = facts.get("mask")
    if mask:
        sentences.append(
            f"The mask keeps pairs below τ = {cell_text(mask['tau'], 2)}: {cell_text(mask['precision'])} % of these "
            f"truly are near (precision), {cell_text(mask['recall'])} % of all near pairs are kept (recall), "
            f"{cell_text(mask['per_row'])} an image."
        )
    tables = [_methods(view, [shown])]
    if len(models) > 1:
        others = [model for model in models if model is not shown]
        tables.append(_methods(view, others, caption="With other models", folded=True))
    return Section(protocol, "Map recovery", sentences, tables, (protocol,), notes=facts.get("notes", []))


def _verdicts(rows: list[dict[str, Any]]) -> list[str]:
    """Plain words on whether features tell more than one would know without them."""
    mean = {row["method"]: row["mean"] for row in rows}
    trivial = [row["method"] for row in rows if row["group"] == "trivial"]
    alone = [row["method"] for row in rows if row["group"] in ("paper", "ours") and "oracle" not in row["method"]]
    found = []
    if trivial and alone:
        best, blind = min(alone, key=mean.__getitem__), min(trivial, key=mean.__getitem__)
        told = _beside(mean[best] / mean[blind])
        found.append(f"Without known positions the best way that needs no oracle ({best}) is {told} a {blind}.")
    if KNOWN in mean and STEADY in mean:
        told = _beside(mean[KNOWN] / mean[STEADY])
        found.append(f"With known positions, ranges are {told} a steady pace between them.")
    return found


def _beside(ratio: float) -> str:
    return "no better than" if ratio > ALIKE else f"{100 * (1 - ratio):.0f} % nearer to the truth than"


def _methods(view: View, models: list[Model], *, caption: str = "", folded: bool = False) -> Table:
    """A row a method, and the paper's own where the set is the paper's; of other models without the trivial ones."""
    found = [(model, row) for model in models for row in model.values("map-recovery")["rows"]]
    found = [(model, row) for model, row in found if not folded or row["group"] != "trivial"]
    printed = {} if folded else paper.RECOVERY.get(view.setup.name, {})
    rows = [row for _, row in found]
    titles = [f"Paper: {name}, {paper.RECOVERY_LENGTH:g} m" for name in printed]
    blank = [None] * len(printed)
    return table(
        "recovery-with-others" if folded else "recovery",
        Column("Method", [*(row["method"] for row in rows), *titles]),
        Column("Model", [*(model.title if folded else None for model, _ in found), *blank]),
        Column("Kind", [*(KINDS.get(row["group"], row["group"]) for row in rows), *("printed" for _ in printed)]),
        Column(
            f"Error, {view.unit}",
            [*(Spread(row["mean"], row["std"]) for row in rows), *(one.metres for one in printed.values())],
        ),
        Column("% of length", [*(row["percent"] for row in rows), *(one.percent for one in printed.values())], 2),
        Column(f"Rigid, {view.unit}", [*(row["rigid"] for row in rows), *blank]),
        Column("Rigid, % of length", [*(row["rigid_percent"] for row in rows), *blank], 2),
        caption=caption,
        references=len(printed),
        folded=folded,
    )
