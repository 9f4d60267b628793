"""Accuracy in regions that the encoder never trained on, with a map of one reference run per region."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mappable.arrays import Ints
from mappable.evaluation import paper
from mappable.evaluation.metrics import MeanStd, percent_within
from mappable.evaluation.models import Model
from mappable.evaluation.protocol import BOUND, Protocol, Section, View
from mappable.evaluation.rows import OFF_THE_SHELF, OURS, ROWS
from mappable.evaluation.scoring import NotApplicableError, Scoring
from mappable.evaluation.setup import Setup
from mappable.evaluation.tables import Cell, Column, Table, table
from mappable.maps.choosing import sequential_landmarks

NAME = "generalization"
SPACINGS = (1.0, 1.25)  # of landmarks along the reference run, in positive radii, as in the paper


@dataclass(frozen=True)
class RegionAccuracy:
    """Percent of a region's queries within the radii; landmarks are `spacing` apart along its
    reference run.
    """

    queries: Ints  # rows of the table
    landmarks: Ints  # rows of the table
    spacing: float
    positive: float
    negative: float
    bound: float  # percent with a landmark within the positive radius


@dataclass(frozen=True)
class Generalization:
    """Accuracy by name of the region, then by spacing of landmarks in positive radii."""

    regions: dict[str, dict[str, RegionAccuracy]]


def rows(setup: Setup) -> Ints:
    """Rows whose images need descriptors."""
    found = [setup.references[:0]]
    for region in setup.regions:
        found += [region.queries, region.reference]
    return np.concatenate(found)


def run(scoring: Scoring) -> Generalization:
    """Accuracy in each region, for landmarks 1 and 1.25 positive radii apart."""
    setup = scoring.setup
    if not setup.regions:
        raise NotApplicableError("the set has no region with its own reference run")
    at = setup.places.positions
    found: dict[str, dict[str, RegionAccuracy]] = {}
    for region in setup.regions:
        squared = scoring.squared(region.queries, region.reference)
        found[region.name] = {}
        for factor in SPACINGS:
            spacing = factor * setup.positive_radius
            chosen = sequential_landmarks(setup.places[region.reference], spacing)
            landmarks = region.reference[chosen]
            nearest = landmarks[squared[:, chosen].argmin(axis=1)]
            errors = np.linalg.norm(at[region.queries] - at[nearest], axis=1)
            bound = scoring.metres(region.queries, landmarks).min(axis=1)
            found[region.name][str(factor)] = RegionAccuracy(
                region.queries,
                landmarks,
                spacing,
                positive=percent_within(errors, setup.positive_radius),
                negative=percent_within(errors, setup.negative_radius),
                bound=percent_within(bound, setup.positive_radius),
            )
    return Generalization(found)


def report(view: View, models: list[Model]) -> Section:
    """Means over models of a kind, as the paper prints them, and a row per model."""
    sentences = [
        (
            f"Percent of the queries found within {view.positive} in other places. Each place has a"
            " map of one reference run. Landmarks are 1 and 1.25 positive radii apart along the"
            " run."
        ),
    ]
    groups: dict[str, list[Model]] = {}
    for model in models:
        groups.setdefault(_kind(model.row), []).append(model)
    single = _regions(
        view, {model.title: [model] for model in models}, folded=len(groups) < len(models)
    )
    tables = [single]
    if single.folded:
        sentences.append("As in the paper, each number is the mean over all models of a kind.")
        titles = {f"{kind} (mean of {len(of)})": of for kind, of in groups.items()}
        tables.insert(
            0, _regions(view, titles, printed=paper.GENERALIZATION.get(view.setup.name, {}))
        )
    return Section(NAME, "Generalization", sentences, tables)


def _regions(
    view: View,
    groups: Mapping[str, list[Model]],
    *,
    printed: Mapping[str, Mapping[str, paper.Models]] | None = None,
    folded: bool = False,
) -> Table:
    """A column per region and spacing; a row per group of models, then the paper's numbers, bound
    and landmarks.
    """
    names = ["Paper, visual", "Paper, combined"] if printed else []
    columns = [
        Column("Model" if printed is None else "Loss", [*groups, *names, BOUND, "Landmarks"])
    ]
    for region, spacings in next(iter(groups.values()))[0].first(Generalization).regions.items():
        for factor, facts in spacings.items():
            cells: list[Cell] = []
            for of in groups.values():
                means = [
                    model.spread(Generalization, lambda one: _positive(one, region, factor))  # noqa: B023
                    for model in of
                ]
                cells.append(means[0] if len(means) == 1 else _mean(means))
            own = (printed or {}).get(region, {}).get(factor)
            cells += [own and own.visual, own and own.combined] if printed else []
            title = f"{facts.spacing:g} {view.unit} apart"
            columns.append(Column(title, [*cells, facts.bound, len(facts.landmarks)], group=region))
    return table(
        "generalization-of-models" if folded else NAME,
        *columns,
        caption="Each model" if folded else "",
        references=2 + len(names),
        folded=folded,
    )


def _positive(found: Generalization, region: str, factor: str) -> float | None:
    one = found.regions.get(region, {}).get(factor)
    return None if one is None else one.positive


def _mean(spreads: Sequence[MeanStd | None]) -> float | None:
    known = [one.mean for one in spreads if one is not None]
    return float(np.mean(known)) if known else None


def _kind(row: str) -> str:
    """The kind of loss of a row, as the paper groups losses."""
    if row not in ROWS or row == OFF_THE_SHELF:
        return "Off-the-shelf" if row == OFF_THE_SHELF else "Others"
    kind = "Combined" if ROWS[row].combined else "Visual" if ROWS[row].visual else "Geometric"
    return f"{kind} (ours)" if row.endswith(OURS) else kind


PROTOCOL = Protocol(NAME, Generalization, rows, run, report)
