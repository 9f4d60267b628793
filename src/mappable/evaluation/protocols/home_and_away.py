"""Accuracy at home and away: the set itself, other views of it, and other sets, each compared with off-the-shelf."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from mappable.arrays import Floats, Floats32, Ints, Pixels, evenly
from mappable.evaluation.away import MOST_QUERIES
from mappable.evaluation.bootstrap import Interval, block_bootstrap
from mappable.evaluation.metrics import percent_within
from mappable.evaluation.models import Model
from mappable.evaluation.protocol import Protocol, Section, View
from mappable.evaluation.rows import OFF_THE_SHELF
from mappable.evaluation.scoring import NotApplicableError, Scoring, landmarks_of, retrieval
from mappable.evaluation.setup import Setup, blocks_of
from mappable.evaluation.tables import Column, Table, table

NAME = "home-and-away"
HOME, MEAN = "Home", "Other sets, mean"
MIRRORED, SHIFTED = "mirrored", "shifted view"
KEPT = 0.8  # of width and height in a shifted view


@dataclass(frozen=True)
class PlaceAccuracy:
    """How the queries of one place are found: error and block of each query, and the radius within
    which it counts.
    """

    errors: Floats
    blocks: Ints
    radius: float
    unit: str

    @property
    def percent(self) -> float:
        """Percent of the queries within the radius."""
        return percent_within(self.errors, self.radius)

    @property
    def right(self) -> Floats:
        """100 for each query within the radius, else 0."""
        return np.where(self.errors <= self.radius, 100.0, 0.0)


@dataclass(frozen=True)
class HomeAndAway:
    """Accuracy at home, by other view of it, and by other set."""

    home: PlaceAccuracy
    views: dict[str, PlaceAccuracy]
    sets: dict[str, PlaceAccuracy]

    @property
    def places(self) -> dict[str, PlaceAccuracy]:
        """All of them by name."""
        return {HOME: self.home, **self.views, **self.sets}

    def percent(self, name: str) -> float | None:
        """Percent found of one place, or the mean over other sets; None without it."""
        if name == MEAN:
            return (
                float(np.mean([one.percent for one in self.sets.values()])) if self.sets else None
            )
        return self.places[name].percent if name in self.places else None


def run(scoring: Scoring) -> HomeAndAway:
    """The set itself; mirrored and shifted views of it; and the away places of the study."""
    if scoring.load is None:
        raise NotApplicableError(
            "there are only descriptors, and no encoder to describe other images"
        )
    setup, (encoder, images) = scoring.setup, scoring.load()
    landmarks, queries = landmarks_of(setup), setup.queries
    some = queries[evenly(len(queries), MOST_QUERIES)]
    known = scoring.descriptors[landmarks]
    views: dict[str, PlaceAccuracy] = {}
    if scoring.own_images:
        flipped = [
            encoder.embed(images.read(rows)[:, :, ::-1].copy(), progress=False)
            for rows in (landmarks, some)
        ]
        views[MIRRORED] = _located(setup, landmarks, some, *flipped)
    views[SHIFTED] = _located(
        setup, landmarks, some, known, encoder.embed(shifted(images.read(some)), progress=False)
    )
    sets = {}
    for other in scoring.away:
        chosen = landmarks_of(other)
        described = (
            encoder.embed(other.places[of], progress=False) for of in (chosen, other.queries)
        )
        sets[other.name] = _located(other, chosen, other.queries, *described)
    return HomeAndAway(
        _located(setup, landmarks, queries, known, scoring.descriptors[queries]), views, sets
    )


def shifted(pixels: Pixels) -> Pixels:
    """The images as a camera sees them that points left or right, in turn, and sees less: 80 % of
    width and height.
    """
    height, width = pixels.shape[1:3]
    wide, high = round(KEPT * width), round(KEPT * height)
    top = (height - high) // 2
    made = np.empty_like(pixels)
    for number, image in enumerate(pixels):
        left = 0 if number % 2 else width - wide
        cut = Image.fromarray(image[top : top + high, left : left + wide])
        made[number] = np.asarray(cut.resize((width, height), Image.Resampling.BILINEAR))
    return made


def _located(
    setup: Setup, landmarks: Ints, queries: Ints, known: Floats32, asked: Floats32
) -> PlaceAccuracy:
    """Locate each query at the landmark that is nearest by descriptor."""
    at = setup.places.positions
    nearest = landmarks[(asked @ known.T).argmax(axis=1)]
    errors = np.linalg.norm(at[queries] - at[nearest], axis=1)
    return PlaceAccuracy(
        errors, blocks_of(setup.places, queries, setup.block), setup.positive_radius, setup.unit
    )


def report(view: View, models: list[Model]) -> Section:
    """One table of percentages, and one of gains over off-the-shelf."""
    first = models[0].first(HomeAndAway)
    places = first.places
    names = [HOME, *([MEAN] if first.sets else []), *list(places)[1:]]
    columns = {
        name: [model.spread(HomeAndAway, lambda one: one.percent(name)) for model in models]  # noqa: B023
        for name in names
    }
    groups = {name: f"≤ {one.radius:g} {one.unit}" for name, one in places.items()}
    percentages = table(
        NAME,
        Column("Model", [model.title for model in models]),
        *(Column(name, columns[name], group=groups.get(name, "")) for name in names),
        best=columns[MEAN if first.sets else HOME],
    )
    sentences = [
        (
            "Percent of the queries found, on the set itself, on other views of it and on sets that"
            " no model trained on. A model that loses on other sets has learned this set at the"
            " cost of all others."
        ),
    ]
    counted = "; ".join(f"{name}: {len(one.errors):,} queries" for name, one in places.items())
    notes = [
        (
            "A query is found if its nearest landmark by feature is within the radius of its"
            f" place. {counted}."
        ),
        (
            "Mirrored: landmarks and queries are mirrored. Shifted view: each query shows 80 % of"
            " its width and height, at the left or right edge in turn."
        ),
        (
            "Off-the-shelf is the network before training, with clusters from the same images and"
            " the same seed. Gains are paired by query and seed; brackets hold 95 % intervals."
        ),
    ]
    return Section(
        NAME, "Home and away", sentences, [percentages, _table_of_gains(models, names)], notes=notes
    )


def _table_of_gains(models: Sequence[Model], names: Sequence[str]) -> Table:
    """Gain of each model over off-the-shelf, paired by query and seed."""
    shelf = {
        one.seed: one.get(HomeAndAway)
        for model in models
        if model.row == OFF_THE_SHELF
        for one in model.results
    }
    gains: dict[str, dict[str, Interval]] = {}
    for model in models:
        pairs = [(one.get(HomeAndAway), shelf.get(one.seed)) for one in model.results]
        known = [(found.places, other.places) for found, other in pairs if found and other]
        if known and model.row != OFF_THE_SHELF:
            gains[model.title] = gains_of(known, list(models[0].first(HomeAndAway).sets))
    columns = []
    for name in names:
        found = [of.get(name) for of in gains.values()]
        columns += [Column("points", [gain and gain.mean for gain in found], group=name)]
        columns += [Column("95 % interval", found, group=name)]
    caption = "Gain over off-the-shelf, in percentage points"
    return table(f"{NAME}-gains", Column("Model", list(gains)), *columns, caption=caption)


def gains_of(
    pairs: Sequence[tuple[Mapping[str, PlaceAccuracy], Mapping[str, PlaceAccuracy]]],
    sets: Sequence[str],
) -> dict[str, Interval]:
    """Gain of one model over another by place, and over all `sets` together, from one pair of
    results per seed.
    """
    shared = [
        name for name in pairs[0][0] if all(name in one and name in two for one, two in pairs)
    ]
    values = {
        name: np.stack([one[name].right - two[name].right for one, two in pairs]) for name in shared
    }
    blocks = {name: pairs[0][0][name].blocks for name in shared}
    others = [name for name in shared if name in sets]
    if others:
        # Each set counts once, however many queries it has.
        total = sum(len(blocks[name]) for name in others)
        weighted = [values[name] * total / (len(others) * len(blocks[name])) for name in others]
        values[MEAN] = np.concatenate(weighted, axis=1)
        blocks[MEAN] = np.concatenate(
            [blocks[name] + number * 10**6 for number, name in enumerate(others)]
        )
    several = [name for name in values if len(np.unique(blocks[name])) > 1]
    return {name: block_bootstrap(values[name], blocks[name], seed=0) for name in several}


PROTOCOL = Protocol(NAME, HomeAndAway, retrieval, run, report)
