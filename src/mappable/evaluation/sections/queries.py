"""Single queries: examples to look at, and what one costs."""

from mappable.evaluation import paper
from mappable.evaluation.sections.view import Model, Section, View, named
from mappable.evaluation.summary import Spread
from mappable.evaluation.tables import Column, table


def qualitative(view: View, models: list[Model]) -> Section:
    """The gallery, and its errors in numbers."""
    facts, names = models[0].values("qualitative"), view.setup.places.place_id
    sentences = [
        f"Random queries of each condition, the landmark that truly is nearest, and what models retrieve among "
        f"{facts['landmarks']:,} landmarks."
    ]
    examples = facts["examples"]
    errors = table(
        "examples",
        Column("Query", [str(names[one["query"]]) for one in examples]),
        Column("Condition", [named(one["condition"]) for one in examples]),
        Column("Nearest landmark", [one["nearest_metres"] for one in examples], 2),
        *(
            Column(model.title, [one["error"] for one in model.values("qualitative")["examples"]], 2)
            for model in models
        ),
        caption=f"Errors in numbers, {view.unit}",
        folded=True,
    )
    return Section("qualitative", "Examples", sentences, [errors], ("qualitative",))


def timing(view: View, models: list[Model]) -> Section:
    """Milliseconds a query, beside the paper's."""
    found = [model.values("timing") for model in models]
    printed = {name: own for name, own in paper.TIMING.items() if name == view.setup.name} or paper.TIMING
    sentences = [
        "Milliseconds a query, one after the other, with the image decoded and in memory: mean ± standard deviation. "
        "The total is describing the image and exact search; the paper's is with a KD-tree.",
    ]

    def column(title: str, step: str) -> Column:
        ours = [Spread(one[step]["mean"], one[step]["std"]) for one in found]
        theirs = [Spread(*own[step]) if step in own else None for own in printed.values()]
        return Column(title, [*ours, *theirs], 2)

    landmarks = [paper.SIZES[name].landmarks for name in printed]
    taken = table(
        "timing",
        Column("Model", [*(model.title for model in models), *(f"Paper, {_proper(name)}" for name in printed)]),
        Column("Hardware", [*(str(one["hardware"]) for one in found), *(paper.HARDWARE for _ in printed)]),
        Column("Landmarks", [*(one["landmarks"] for one in found), *landmarks]),
        column("Describe", "describe"),
        column("KD-tree", "kd-tree"),
        column("Exact", "exact"),
        column("Total", "total"),
        references=len(printed),
    )
    return Section("timing", "Timing", sentences, [taken])


def _proper(name: str) -> str:
    """The name of one of the paper's sets."""
    return {"cold": "COLD", "oxford": "Oxford"}[name]
