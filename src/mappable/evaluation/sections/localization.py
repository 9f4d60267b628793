"""Positions in metres, their intervals, and images that are not on the map."""

from mappable.evaluation.sections.view import BOUND, Model, Section, View, named
from mappable.evaluation.tables import Column, Table, table


def localization(view: View, models: list[Model]) -> Section:
    """Errors of positions, coverage and width of intervals, and rejection."""
    protocol = "localization"
    facts = models[0].values(protocol)
    sentences = [
        "Three ways to say where a query is: at the nearest landmark by feature (top-1), between the landmarks that "
        "look like it (refined), and with the images before and after it (sequence).",
        f"Where the map is confident it gives an interval, which should hold the true distance in "
        f"{100 * facts['coverage']:.0f} % of the cases. Narrow intervals that keep this promise are good ones.",
        "Rejection asks whether an image is on the map at all: precision and recall over all thresholds of the feature "
        "distance (average precision, 1 is perfect), and what the calibrated map accepts.",
    ]
    tables = [
        _positions(view, models),
        _intervals(view, models),
        *([_located_by_condition(view, models)] if len(facts["by_condition"]) > 1 else []),
        _rejection(models),
    ]
    return Section(protocol, "Localization", sentences, tables, ("localization", "rejection"), notes=_notes(models))


def _notes(models: list[Model]) -> list[str]:
    """What is to be known of some models, each said once."""
    told: dict[str, list[str]] = {}
    for model in models:
        if note := model.values("localization").get("note"):
            told.setdefault(note, []).append(model.title)
    return [f"{'All models' if len(of) == len(models) > 1 else ', '.join(of)}: {note}" for note, of in told.items()]


def _positions(view: View, models: list[Model]) -> Table:
    ways = {"top-1": "Top-1", "refined": "Refined", "sequence": "Sequence"}

    def column(way: str, number: str) -> Column:
        title, digits = (f"median, {view.unit}", 2) if number == "median" else (f"≤ {view.positive}, %", 1)
        cells = [model.mean("localization", "errors", way, number) for model in models]
        bound = models[0].mean("localization", "errors", "bound", number) if way == "top-1" else None
        return Column(title, [*cells, bound], digits, ways[way])

    by_accuracy = [column(way, "positive").cells for way in ("refined", "top-1")]
    return table(
        "positions",
        Column("Model", [*(model.title for model in models), BOUND]),
        *(column(way, number) for way in ways for number in ("median", "positive")),
        caption="Errors of positions",
        best=next((own for own in by_accuracy if any(cell is not None for cell in own)), ()),
        references=1,
    )


def _intervals(view: View, models: list[Model]) -> Table:
    def column(title: str, name: str, digits: int = 1) -> Column:
        return Column(title, [model.mean("localization", name) for model in models], digits)

    return table(
        "intervals",
        Column("Model", [model.title for model in models]),
        Column("Calibrated on", [model.values("localization")["calibrated_on"] for model in models]),
        column("Confident, %", "confident"),
        column("Hold the truth, %", "covered"),
        column(f"Mean width, {view.unit}", "width", 2),
        column(f"Blind width, {view.unit}", "unconditional_width", 2),
        column("Refined, %", "refined"),
        caption="Intervals of confident queries; blind is one that knows nothing of the image",
    )


def _located_by_condition(view: View, models: list[Model]) -> Table:
    pairs = [(model, name) for model in models for name in model.values("localization")["by_condition"]]

    def column(title: str, name: str, digits: int = 1) -> Column:
        cells = [model.mean("localization", "by_condition", condition, name) for model, condition in pairs]
        return Column(title, cells, digits)

    return table(
        "located-by-condition",
        Column("Model", [model.title for model, _ in pairs]),
        Column("Condition", [named(condition) for _, condition in pairs]),
        column(f"Top-1: median, {view.unit}", "top-1", 2),
        column(f"Refined: median, {view.unit}", "median", 2),
        column("Confident, %", "confident"),
        column("Intervals hold the truth, %", "covered"),
        caption="By condition",
        folded=True,
    )


def _rejection(models: list[Model]) -> Table:
    def column(title: str, name: str, digits: int = 1) -> Column:
        return Column(title, [model.mean("localization", "rejection", name) for model in models], digits)

    average = column("Average precision", "average_precision", 3)
    return table(
        "rejection",
        Column("Model", [model.title for model in models]),
        average,
        column("Accepted of those on the map, %", "accepted"),
        column("Accepted of those elsewhere, %", "falsely_accepted"),
        Column(
            "Images from elsewhere", [model.values("localization")["rejection"]["absent"] or None for model in models]
        ),
        caption="Rejection",
        best=average.cells,
    )
