"""How many queries are found: table I, curves, the number of landmarks, and what the paper claims of all that."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mappable.evaluation import paper
from mappable.evaluation.claims import Claim, judge
from mappable.evaluation.sections.view import BOUND, Model, Section, View, counted, named
from mappable.evaluation.summary import difference, spread
from mappable.evaluation.tables import Column, Table, table


def table1(view: View, models: list[Model]) -> Section:
    """How many queries are found within the radii, with the paper's numbers where the set is the paper's."""
    facts = models[0].values("table1")
    choices, without = len(facts["landmark_seeds"]), facts["queries"] - facts["queries_with_positive"]
    several = any(len(model.results) > 1 for model in models)
    sentences = [
        "A query is put where the landmark lies that is nearest to it by feature. Counted is the share of the "
        f"{facts['queries']:,} queries that this puts at most {view.positive}, or {view.negative}, from where they "
        f"are, with {facts['landmarks']:,} landmarks. The upper bound is what a perfect encoder would reach.",
        f"Brackets hold the 95 % interval of a bootstrap that draws {'training runs and ' * several}stretches of the "
        f"route, {view.setup.block:g} {view.unit} long."
        + " A ± is the standard deviation over training runs."
        * several,
        f"{counted(without, 'query has', 'queries have')} no landmark within {view.positive}; such queries count as "
        "not found here, and are left out of recall@N."
        if without
        else f"Every query has a landmark within {view.positive}.",
    ]
    if choices > 1:
        sentences[1] += f" All numbers are with one set of landmarks, but for a mean ± deviation over {choices} sets."
    if view.setup.name in paper.SIZES:
        sizes = paper.SIZES[view.setup.name]
        sentences.append(f"The paper has {sizes.test:,} queries and {sizes.landmarks:,} landmarks.")
    tables = [_accuracy(view, facts), *_gains(view, models), *_by_condition(view), _recall(view)]
    return Section("table1", "Accuracy", sentences, tables, ("table1", "landmarks"))


def _accuracy(view: View, facts: Mapping[str, Any]) -> Table:
    found, printed = view.summaries, paper.TABLE_1.get(view.setup.name, {})
    theirs = [printed.get(one.row) for one in found]
    bound, choices = facts["bound"], len(facts["landmark_seeds"])
    median = float(np.median(view.models("table1")[0].results[0].arrays("table1")["bound"]))
    over = [one.landmarks_positive if choices > 1 else None for one in found]
    ours, near, far = "Ours" if printed else "Found", f"Within {view.positive}, %", f"Within {view.negative}, %"
    return table(
        "accuracy",
        Column("Model", [*(one.title for one in found), BOUND]),
        Column(ours, [*(one.positive for one in found), bound["positive"][0]], group=near),
        Column("95 % interval", [*(one.interval for one in found), None], group=near),
        Column("Paper", [*(one and one.positive for one in theirs), None], 2, near),
        Column(f"Over {choices} landmark sets", [*over, spread(bound["positive"])], group=near),
        Column(ours, [*(one.negative for one in found), bound["negative"][0]], group=far),
        Column("Paper", [*(one and one.negative for one in theirs), None], 2, far),
        Column(f"Median error, {view.unit}", [*(one.median for one in found), median], 2),
        best=[one.positive for one in found],
        references=1,
    )


def _gains(view: View, models: list[Model]) -> list[Table]:
    """What the best model gains over each other one, query by query and with the same seeds."""
    found = {one.row: one.positive.mean for one in view.summaries}
    best = max(models, key=lambda model: found[model.row])
    others = [model for model in models if model is not best]
    gains = [(model.title, difference(best.results, model.results)) for model in others]
    told = [(title, gain, ", ".join(map(str, gain.seeds)) or "different") for title, gain in gains if gain]
    shown = table(
        "gains",
        Column("Over", [title for title, _, _ in told]),
        Column("Points", [gain.mean for _, gain, _ in told]),
        Column("95 % interval", [gain.interval for _, gain, _ in told]),
        Column("Seeds", [seeds for _, _, seeds in told]),
        caption=f"What {best.title} gains within {view.positive} over each other model, on the same queries",
    )
    return [shown] if len(told) > 1 else []


def _by_condition(view: View) -> list[Table]:
    found, conditions = view.summaries, view.summaries[0].by_condition
    if len(conditions) < 2:
        return []
    columns = [
        Column(
            f"{named(name)} ({own['queries']:,})",
            [*(one.by_condition[name]["positive"] for one in found), own["bound"]],
        )
        for name, own in conditions.items()
    ]
    return [
        table(
            "by-condition",
            Column("Model", [*(one.title for one in found), BOUND]),
            *columns,
            caption=f"Percent within {view.positive}, by condition (number of queries)",
            best=[one.positive for one in found],
            references=1,
        )
    ]


def _recall(view: View) -> Table:
    found = view.summaries
    return table(
        "recall",
        Column("Model", [one.title for one in found]),
        *(Column(f"recall@{count}", [one.recall.get(count) for one in found]) for count in found[0].recall),
        caption=f"Percent of queries with a landmark within {view.positive} among the N nearest by feature",
        best=[one.positive for one in found],
    )


def curves(view: View, models: list[Model]) -> Section:
    """The figure of accuracy against tolerance."""
    sentences = [
        "The share of queries found, against the error that is allowed. A curve that rises early is exact; one that "
        "ends high is rarely lost. No encoder gets above the black line: the landmark that truly is the nearest."
    ]
    return Section("curves", "Accuracy against tolerance", sentences, figures=("curves",))


def judged(view: View) -> Sequence[Claim]:
    """All claims, or none where the models that they compare were not trained."""
    found = judge(view.results)
    return found if any(claim.compared for claim in found) else ()


def claims(view: View, models: list[Model]) -> Section:
    """The claims, where the models allow to judge any of them."""
    sentences = [
        "What the paper says in words, judged by the models above. One is better than another if the 95 % interval of "
        "their difference, query by query and seed by seed, excludes 0. Models with our own γ and F² count for the "
        "last claim only."
    ]
    return Section("claims", "The paper's claims", sentences, claims=judged(view))


def landmark_sweep(view: View, models: list[Model]) -> Section:
    """Accuracy with few and with many landmarks."""
    protocol = "landmark-sweep"
    facts = models[0].values(protocol)
    sentences = [f"How many landmarks a map needs: percent of the queries found within {view.positive}."]
    found = [[model.mean(protocol, "positive", at) for model in models] for at in range(len(facts["counts"]))]
    swept = [
        Column(f"{count:,}", [*cells, bound], group="Landmarks")
        for count, cells, bound in zip(facts["counts"], found, facts["bound"]["positive"], strict=True)
    ]
    titles = Column("Model", [*(model.title for model in models), BOUND])
    shown = table(protocol, titles, *swept, best=found[-1], references=1)
    return Section(protocol, "Number of landmarks", sentences, [shown], (protocol,))
