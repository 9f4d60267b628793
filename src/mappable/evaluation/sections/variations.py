"""What single settings are worth: rows with some of them changed, beside the same row without."""

from mappable.evaluation.claims import between
from mappable.evaluation.rows import variation_of
from mappable.evaluation.sections.view import Model, Section, View
from mappable.evaluation.summary import difference
from mappable.evaluation.tables import Column, Table

EMPTY = Section("variations", "Other settings", [])


def variations(view: View, models: list[Model]) -> Section:
    """A table of all changes whose row was trained without them, too."""
    rows, found = {model.row: model for model in models}, {one.row: one for one in view.summaries}
    varied = [(model, *variation_of(model.row)) for model in models]
    changed = [(model, rows[base], changes) for model, base, changes in varied if changes and base in rows]
    gains = [difference(model.results, base.results) for model, base, _ in changed]
    told = [", ".join(f"{name} {value}" for name, value in changes.items()) for _, _, changes in changed]
    near = [found[model.row].positive for model, _, _ in changed]
    shown = Table(
        "variations",
        [
            Column("Row", [base.title for _, base, _ in changed]),
            Column("Change", told),
            Column(f"Within {view.positive}, %", near),
            Column(f"Within {view.negative}, %", [found[model.row].negative for model, _, _ in changed]),
            Column("Points", [gain.mean if gain else None for gain in gains], group="Gain of the change"),
            Column("95 % interval", [gain.interval if gain else None for gain in gains], group="Gain of the change"),
        ],
    )
    sentences = [
        "Settings that were changed one at a time, or together where several stand in a line. The gain is over the row "
        "without the change, on the same queries and seeds."
    ]
    for row in dict.fromkeys(base.row for _, base, _ in changed):
        one = found[row]
        sentences.append(f"{one.title} itself: {one.positive.mean:.1f} %{between(one.interval)}.")
    return Section("variations", "Other settings", sentences, [shown], ("variations",)) if changed else EMPTY
