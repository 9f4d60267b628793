"""How feature distances follow distances on the ground: correlations, and matrices of both."""

from collections.abc import Sequence

from mappable.evaluation import paper
from mappable.evaluation.sections.view import Model, Section, View
from mappable.evaluation.tables import Column, Table, table


def proportionality(view: View, models: list[Model]) -> Section:
    """Correlations over the pairs of one sequence, and of others."""
    sequences = models[0].values("proportionality")["sequences"]
    name, *others = sequences
    printed = paper.PEARSON["cold"]
    sentences = [
        "Do distances of features grow with distances on the ground? The correlation of the two, over all "
        f"{sequences[name]['pairs']:,} pairs of the {sequences[name]['images']:,} images of {name}. A straight line "
        "would have 1.",
        f"The paper has Pearson correlations of {printed['lazy-quadruplet']} (lazy quadruplet) and "
        f"{printed['lazy-quadruplet+distance']} (with the distance loss added), on the COLD sequence seq2_sunny3.",
    ]
    tables = [_correlations(view, models, [name])]
    if others:
        tables.append(_correlations(view, models, others, caption="Other sequences", folded=True))
    return Section("proportionality", "Proportionality", sentences, tables, ("proportionality",))


def _correlations(
    view: View, models: list[Model], names: Sequence[str], *, caption: str = "", folded: bool = False
) -> Table:
    pairs = [(model, name) for model in models for name in names]
    kinds = {
        "plain": "all",
        "squared": "squared",
        "within positive radius": f"≤ {view.positive}",
        "within negative radius": f"≤ {view.negative}",
    }

    def column(which: str, kind: str) -> Column:
        cells = [model.mean("proportionality", "sequences", name, which, kind) for model, name in pairs]
        return Column(kinds[kind], cells, 3, which.capitalize())

    return table(
        "other-correlations" if folded else "correlations",
        Column("Model", [model.title for model, _ in pairs]),
        Column("Sequence", [name if folded else None for _, name in pairs]),
        *(column("pearson", kind) for kind in kinds),
        *(column("spearman", kind) for kind in kinds if kind != "squared"),  # which has the same ranks as all
        Column("Paper (COLD)", [None if folded else paper.PEARSON["cold"].get(model.row) for model, _ in pairs], 3),
        caption=caption,
        best=[] if folded else column("pearson", "plain").cells,
        folded=folded,
    )


def distance_matrices(view: View, models: list[Model]) -> Section:
    """The figure, and how much the matrices resemble each other."""
    protocol = "distance-matrices"
    facts = models[0].values(protocol)
    sentences = [
        f"Each row is an image of {facts['reference']}, each column one of {facts['queries']}, both in time order. The "
        "more a matrix of feature distances resembles the one of geometric distances, the better features can stand in "
        "for positions."
    ]
    pearson, spearman = ([model.mean(protocol, name) for model in models] for name in ("pearson", "spearman"))
    correlations = table(
        "matrices",
        Column("Model", [model.title for model in models]),
        Column("Pearson", pearson, 3),
        Column("Spearman", spearman, 3),
        best=pearson,
    )
    return Section(protocol, "Distance matrices", sentences, [correlations], (protocol,))
