"""Localization in metres: refined positions, whole drives, intervals, and images that are not on the map."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mappable.arrays import Floats, Ints, evenly
from mappable.evaluation.acceptance import (
    RULES,
    SEQUENCE,
    SINGLE,
    RuleCounts,
    count_rules,
    sureness,
)
from mappable.evaluation.answers import Answers, Counts, count, percent
from mappable.evaluation.figure import new_figure, tidy
from mappable.evaluation.metrics import MeanStd, chance, spread
from mappable.evaluation.models import Model, best_of, own_map
from mappable.evaluation.protocol import (
    BOUND,
    CHANCE,
    Drawing,
    NothingToDrawError,
    Protocol,
    Section,
    View,
)
from mappable.evaluation.scoring import MOST_ELSEWHERE, Scoring, by_condition, map_rows, some_of
from mappable.evaluation.setup import Setup
from mappable.evaluation.tables import Cell, Column, Table, table
from mappable.localization.location import Location
from mappable.localization.map import Map
from mappable.plotting import BLUE, SKY, VERMILION, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "localization"
DRAWN = 150  # queries in the figure
NEAREST, REFINED, DRIVE = "nearest", "refined", "sequence"


@dataclass(frozen=True)
class Localization:
    """Answers of each method to the queries, and the score of each rule for the queries, then the
    absent images.
    """

    queries: Ints  # rows of the table
    landmarks: Ints  # rows of the table
    absent: Ints  # rows of images that are not on the map
    bound: Floats  # distance to the nearest landmark on the ground
    chance: float  # percent that a random landmark finds
    methods: dict[str, Answers]
    rules: dict[str, Floats]
    calibrated_on: str
    coverage: float  # stated by the intervals
    note: str


def rows(setup: Setup) -> Ints:
    """Rows whose images need descriptors."""
    return np.concatenate([setup.queries, map_rows(setup), some_of(setup.absent, MOST_ELSEWHERE)])


def run(scoring: Scoring) -> Localization:
    """Locate all queries, one by one and as drives, and record what the map states about each."""
    built, note = scoring.calibrated_map
    setup, described, opened = scoring.setup, scoring.descriptors, Map(built)
    queries, absent = setup.queries, some_of(setup.absent, MOST_ELSEWHERE)
    singles: dict[int, Location] = {}  # by row
    drives: dict[int, Location] = {}
    scores: dict[str, dict[int, float]] = {name: {} for name in RULES}
    for rows in (queries, absent):
        for visit in setup.places[rows].sequences().values():
            images = rows[visit]
            singles |= zip(images, opened.locate_all(described[images]), strict=True)
            drives |= zip(images, opened.locate_drive(described[images]), strict=True)
            for name, values in sureness(opened, described[images]).items():
                scores[name] |= zip(images, values, strict=True)
    at = dict(zip(built.places.place_id, built.places.positions, strict=True))
    truth = setup.places.positions[queries]

    def answers(found: dict[int, Location], position: Callable[[Location], Floats]) -> Answers:
        locations = [found[row] for row in queries]
        distance, low, high = np.array(
            [(one.distance, one.low, one.high) for one in locations], dtype=np.float64
        ).T
        return Answers(
            errors=np.linalg.norm(truth - np.array([position(one) for one in locations]), axis=1),
            to_landmark=np.linalg.norm(
                truth - np.array([at[one.landmark] for one in locations]), axis=1
            ),
            distance=distance,
            low=low,
            high=high,
            confident=np.array([one.confident for one in locations]),
            absent_confident=np.array([found[row].confident for row in absent], dtype=bool),
        )

    metres = scoring.metres(queries, scoring.landmarks())
    return Localization(
        queries=queries,
        landmarks=np.sort(scoring.landmarks()),
        absent=absent,
        bound=metres.min(axis=1),
        chance=chance(metres, setup.positive_radius),
        methods={
            NEAREST: answers(singles, lambda one: at[one.candidates[0].landmark]),
            REFINED: answers(singles, lambda one: np.array(one.coordinates)),
            DRIVE: answers(drives, lambda one: np.array(one.coordinates)),
        },
        rules={
            name: np.array([of[row] for row in (*queries, *absent)]) for name, of in scores.items()
        },
        calibrated_on=opened.calibration.calibrated_on,
        coverage=opened.calibration.coverage,
        note=note,
    )


def rules_of(found: Localization, radius: float) -> dict[str, RuleCounts]:
    """Counts of each rule. An answer is correct within the radius; an answer about an absent image
    is wrong.
    """
    nowhere = np.zeros(len(found.absent), dtype=bool)
    methods = {SINGLE: found.methods[REFINED], SEQUENCE: found.methods[DRIVE]}
    right = {rule: np.concatenate([one.errors <= radius, nowhere]) for rule, one in methods.items()}
    confident = {
        rule: np.concatenate([one.confident, one.absent_confident]) for rule, one in methods.items()
    }
    return count_rules(found.rules, right, confident)


def report(view: View, models: list[Model]) -> Section:
    """What the methods find, what their intervals are worth, and which answers to accept."""
    first, radius = models[0].first(Localization), view.setup.positive_radius
    absent = (
        f", {len(first.absent):,} of them about images that are not on the map"
        if len(first.absent)
        else ""
    )
    sentences = [
        (
            "Three methods locate a query. Nearest takes the nearest landmark by feature. Refined"
            " uses all landmarks. Sequence also uses the images before and after it. Chance is a"
            " random landmark."
        ),
    ]
    notes = [
        (
            "An interval should contain the true distance to the landmark in"
            f" {100 * first.coverage:.0f} % of the cases."
        ),
        (
            "Rules: ours accept confident answers. Each plain rule accepts its surest answers, as"
            " many as ours for single images. The average precision is over all thresholds, and 1"
            " is perfect; its recall is the share of correct answers that are accepted. There are"
            f" {len(first.queries) + len(first.absent):,} answers{absent}."
        ),
        *dict.fromkeys(note for model in models if (note := model.first(Localization).note)),
    ]
    every = {"": np.arange(len(first.queries))}
    tables = [_methods(view, models, "ways", every), _rules(models, radius)]
    if len(conditions := by_condition(view.setup)) > 1:
        tables.append(
            _methods(view, models, "located-by-condition", conditions, caption="By condition")
        )
    return Section(
        NAME, "Localization", sentences, tables, (NAME,), notes=notes, leads=own_map(models)
    )


def _methods(
    view: View, models: list[Model], name: str, parts: Mapping[str, Ints], caption: str = ""
) -> Table:
    """A row per model, method and part of the queries, then the bound and chance for all queries."""
    first, radius = models[0].first(Localization), view.setup.positive_radius
    lines = [(model, way, part) for part in parts for model in models for way in first.methods]
    bound = [] if caption else [100 * float(np.mean(first.bound <= radius)), first.chance]
    median = [] if caption else [float(np.median(first.bound))]

    def cells(get: Callable[[Counts], float | None]) -> list[Cell]:
        def value(found: Localization, way: str, part: str) -> float | None:
            return get(count(found.methods[way], radius, parts[part]))

        return [
            model.spread(Localization, lambda one: value(one, way, part))  # noqa: B023
            for model, way, part in lines
        ]

    found = cells(lambda one: one.percent)
    several = len(models) > 1
    return table(
        name,
        Column("Condition", [part or None for _, _, part in lines]),
        Column("Model", [model.title if several else None for model, _, _ in lines]),
        Column("Method", [*(way for _, way, _ in lines), *([BOUND, CHANCE] if bound else [])]),
        Column(f"≤ {view.positive}, %", [*found, *bound]),
        Column(f"Median error, {view.unit}", [*cells(lambda one: one.median), *median], 2),
        Column("Confident, %", cells(lambda one: 100 * one.confident / one.queries)),
        Column("Confident and correct, %", cells(lambda one: percent(one.right, one.confident))),
        Column("Intervals with the truth, %", cells(lambda one: percent(one.held, one.intervals))),
        Column(f"Mean width, {view.unit}", cells(lambda one: one.width), 2),
        caption=caption or "Methods to locate",
        best=[] if caption else found,
        references=len(bound),
        folded=bool(caption),
    )


def _rules(models: list[Model], radius: float) -> Table:
    """A row per model and rule."""
    counted = {
        model.title: [rules_of(one, radius) for one in model.each(Localization)] for model in models
    }
    lines = [(title, rule) for title in counted for rule in RULES]

    def cells(get: Callable[[RuleCounts], float | None]) -> list[MeanStd | None]:
        values = ([get(seed[rule]) for seed in counted[title]] for title, rule in lines)
        known = ([value for value in one if value is not None] for one in values)
        return [spread(one) if one else None for one in known]

    average = cells(lambda one: one.average_precision)
    return table(
        "rules",
        Column("Rule", [rule for _, rule in lines]),
        Column("Model", [title if len(models) > 1 else None for title, _ in lines]),
        Column("Average precision", average, 3),
        Column("Accepted, %", cells(lambda one: 100 * one.accepted / one.answers)),
        Column("False discoveries, %", cells(lambda one: one.false_discovery)),
        caption="Which answers to accept",
        best=average if len(models) == 1 else (),
        folded=len(models) > 1,
    )


def draw(view: View) -> "Figure":
    """Intervals of the best model's confident queries, by stated distance, with the true distances."""
    models = [
        one
        for one in view.drawn(Localization)
        if one.first(Localization).methods[REFINED].confident.any()
    ]
    if not models:
        raise NothingToDrawError("no model is confident about any query, so no intervals to draw")
    model = best_of(models)
    found = model.first(Localization)
    answers = found.methods[REFINED]
    sure = np.flatnonzero(answers.confident)
    which = sure[evenly(len(sure), DRAWN)]
    which = which[np.argsort(answers.distance[which], kind="stable")]
    image = np.arange(len(which))
    top = 1.3 * np.quantile(answers.high[which], 0.98)
    figure = new_figure(4.2)
    axes = figure.add_subplot()
    label = f"{100 * found.coverage:g} % interval"
    axes.fill_between(
        image,
        answers.low[which],
        answers.high[which],
        color=SKY,
        alpha=0.5,
        linewidth=0,
        label=label,
    )
    axes.plot(image, answers.distance[which], color=BLUE, label="stated")
    truth = np.minimum(answers.to_landmark[which], top)
    axes.plot(image, truth, ".", color=VERMILION, markersize=5, label="true, or beyond the top")
    axes.set(
        xlabel="images, by stated distance",
        ylabel=f"to the likeliest landmark [{view.unit}]",
        ylim=(0, top),
    )
    axes.set_title(f"{plain(model.title)}: single images", fontsize=11, loc="left")
    axes.legend(frameon=False, loc="upper left")
    tidy(axes)
    return figure


CAPTION = (
    "Distances and intervals that the map states about confident queries, against the true ones."
)
PROTOCOL = Protocol(
    NAME, Localization, rows, run, report, (Drawing(NAME, CAPTION, draw),), of_a_map=True
)
