"""Accuracy at home and away: the set itself, other views of it, and other sets, each compared with off-the-shelf."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from mappable.arrays import Floats, Floats32, Ints, Pixels, evenly
from mappable.errors import BadInputError
from mappable.evaluation.away import MOST_QUERIES
from mappable.evaluation.bootstrap import Interval, block_bootstrap
from mappable.evaluation.metrics import percent_within
from mappable.evaluation.models import Model, own_map
from mappable.evaluation.protocol import Protocol, Section, View
from mappable.evaluation.protocols import generalization
from mappable.evaluation.rows import OFF_THE_SHELF
from mappable.evaluation.scoring import NotApplicableError, Scoring, landmarks_of, retrieval
from mappable.evaluation.setup import Setup, blocks_of
from mappable.evaluation.tables import Cell, Column, Table, table
from mappable.features.image_encoder import ImageEncoder
from mappable.maps.choosing import sequential_landmarks

NAME = "home-and-away"
HOME, MEAN = "Home", "Away, mean"
OTHERS = "Other sets, mean"  # without the views and regions of the set itself, where training helps as it does at home
MIRRORED, SHIFTED = "mirrored", "shifted view"
KEPT = 0.8  # of width and height in a shifted view


@dataclass(frozen=True)
class PlaceAccuracy:
    """How the queries of one place are found: error and block of each query, and the radius within which it counts."""

    errors: Floats
    blocks: Ints
    radius: float
    unit: str
    landmarks: int

    @property
    def percent(self) -> float:
        """Percent of the queries within the radius."""
        return percent_within(self.errors, self.radius)


@dataclass(frozen=True)
class HomeAndAway:
    """Accuracy at home and by away place.

    If off-the-shelf is not a model, `shelf` has its accuracy at home and away, or `missing` says why not.
    """

    home: PlaceAccuracy
    away: dict[str, PlaceAccuracy]
    shelf: dict[str, PlaceAccuracy]
    missing: str = ""


def rows(setup: Setup) -> Ints:
    """Rows whose images need descriptors."""
    return np.concatenate([retrieval(setup), generalization.rows(setup)])


def score(scoring: Scoring) -> HomeAndAway:
    """The set itself; its regions; mirrored and shifted views of it; and the away places of the study."""
    if scoring.load is None:
        raise NotApplicableError("there are only descriptors, and no encoder to describe other images")
    setup = scoring.setup
    encoder, images = scoring.load()
    landmarks, queries = landmarks_of(setup), setup.queries
    some = queries[evenly(len(queries), MOST_QUERIES)]
    known = scoring.descriptors[landmarks]
    found: dict[str, PlaceAccuracy] = {}
    for region in setup.regions:
        own = region.reference[sequential_landmarks(setup.places[region.reference], setup.positive_radius)]
        described = scoring.descriptors[own], scoring.descriptors[region.queries]
        found[region.name] = _located(setup, own, region.queries, *described)
    if scoring.own_images:
        flipped = [encoder.embed(images.read(rows)[:, :, ::-1].copy(), progress=False) for rows in (landmarks, some)]
        found[MIRRORED] = _located(setup, landmarks, some, *flipped)
    found[SHIFTED] = _located(setup, landmarks, some, known, encoder.embed(shifted(images.read(some)), progress=False))
    found |= located_places(encoder, scoring.away)
    home = _located(setup, landmarks, queries, known, scoring.descriptors[queries])
    if scoring.shelf is None:
        return HomeAndAway(home, found, {})
    try:
        shelf = scoring.shelf()
        known, asked = (shelf.embed(setup.places[of], progress=False) for of in (landmarks, queries))
        both = {HOME: _located(setup, landmarks, queries, known, asked)}
        views = shelf.embed(shifted(images.read(some)), progress=False)
        both[SHIFTED] = _located(setup, landmarks, some, known, views)
        return HomeAndAway(home, found, both | located_places(shelf, scoring.away))
    except BadInputError as error:
        return HomeAndAway(home, found, {}, str(error))


def depends(scoring: Scoring) -> str:
    """Changes with the away places."""
    return " ".join(f"{one.name} {one.fingerprint}" for one in scoring.away)


def shifted(pixels: Pixels) -> Pixels:
    """The images as a camera sees them that points left or right, in turn, and sees less: 80 % of width and height."""
    height, width = pixels.shape[1:3]
    wide, high = round(KEPT * width), round(KEPT * height)
    top = (height - high) // 2
    made = np.empty_like(pixels)
    for number, image in enumerate(pixels):
        left = 0 if number % 2 else width - wide
        cut = Image.fromarray(image[top : top + high, left : left + wide])
        made[number] = np.asarray(cut.resize((width, height), Image.Resampling.BILINEAR))
    return made


def located_places(encoder: ImageEncoder, away: Sequence[Setup]) -> dict[str, PlaceAccuracy]:
    """How an encoder finds the queries of each away place, by name."""
    found = {}
    for setup in away:
        landmarks = landmarks_of(setup)
        known, asked = (encoder.embed(setup.places[of], progress=False) for of in (landmarks, setup.queries))
        found[setup.name] = _located(setup, landmarks, setup.queries, known, asked)
    return found


def _located(setup: Setup, landmarks: Ints, queries: Ints, known: Floats32, asked: Floats32) -> PlaceAccuracy:
    """Locate each query at the landmark that is nearest by descriptor."""
    at = setup.places.positions
    nearest = landmarks[(asked @ known.T).argmax(axis=1)]
    errors = np.linalg.norm(at[queries] - at[nearest], axis=1)
    blocks = blocks_of(setup.places, queries, setup.block)
    return PlaceAccuracy(errors, blocks, setup.positive_radius, setup.unit, len(landmarks))


def sections(view: View, models: list[Model]) -> list[Section]:
    """One table of percentages, and one of gains over off-the-shelf."""
    first = models[0].first(HomeAndAway)
    own_views = {MIRRORED, SHIFTED, *(region.name for region in view.setup.regions)}
    others = [name for name in first.away if name not in own_views]
    names = [HOME, *([OTHERS] if others else []), MEAN, *first.away]
    titles = [*(["Off-the-shelf"] if first.shelf else []), *(model.title for model in models)]

    def column(name: str) -> list[Cell]:
        shelf = [_of_one(first.shelf, name, others)] if first.shelf else []
        own = (model.spread(HomeAndAway, lambda found: _of_one(_by_place(found), name, others)) for model in models)
        return [*shelf, *own]

    percentages = table(
        NAME,
        Column("Model", titles),
        *(Column(name, column(name), group=_group(name, first)) for name in names),
        best=column(OTHERS if others else MEAN),
    )
    tables = [percentages]
    gains = [(model, _gains(model, models, others)) for model in models]
    compared = [(model, of) for model, of in gains if of]
    if compared:
        tables.append(_table_of_gains(compared, names))
    sentences = [
        "Percent of the queries found, on the set itself and on places and views that no model trained on. Away "
        "is every column after the means. A model that loses on other sets has learned this set at the cost of all "
        "others.",
    ]
    places = "; ".join(f"{name}: {len(one.errors):,} queries" for name, one in first.away.items())
    notes = [
        f"A query is found if its nearest landmark by feature is within the radius of its place. {places}.",
        "Mirrored: landmarks and queries are mirrored. Shifted view: each query shows 80 % of its width and height, at "
        "the left or right edge in turn. Regions have one landmark per positive radius.",
    ]
    if compared:
        clusters = "map" if first.shelf else "training set and the same seed"
        notes.append(
            f"Off-the-shelf is the network before training, with clusters from the images of the {clusters}. Gains are "
            "paired by query and seed; brackets hold 95 % intervals."
        )
    elif first.missing:
        notes.append(f"There is no off-the-shelf encoder to compare with: {first.missing}.")
    elif own_map(models):
        notes.append(
            "The option --away PLACES of `mappable evaluate` adds another set, and the gain over off-the-shelf."
        )
    return [Section(NAME, "Home and away", sentences, tables, notes=notes, leads=True)]


def _group(name: str, first: HomeAndAway) -> str:
    """The heading above a column: the radius within which queries count."""
    one = first.home if name == HOME else first.away.get(name)
    return "" if one is None else f"≤ {one.radius:g} {one.unit}"


def _by_place(found: HomeAndAway) -> dict[str, PlaceAccuracy]:
    return {HOME: found.home, **found.away}


def _of_one(places: Mapping[str, PlaceAccuracy], name: str, others: Sequence[str]) -> float | None:
    """Percent found of one column: of a place, or the mean over places."""
    means = {MEAN: [one for one in places if one != HOME], OTHERS: others}
    known = [places[one].percent for one in means.get(name, [name]) if one in places]
    return float(np.mean(known)) if known else None


def _table_of_gains(compared: Sequence[tuple[Model, Mapping[str, Interval]]], names: Sequence[str]) -> Table:
    columns = []
    for name in names:
        own = [of.get(name) for _, of in compared]
        columns += [
            Column("points", [one and one.mean for one in own], group=name),
            Column("95 % interval", own, group=name),
        ]
    titles = Column("Model", [model.title for model, _ in compared])
    return table(f"{NAME}-gains", titles, *columns, caption="Gain over off-the-shelf, in percentage points")


def _gains(model: Model, models: Sequence[Model], others: Sequence[str]) -> dict[str, Interval]:
    """Gain of a model over off-the-shelf by place, paired by query and seed; `others` are the places of other sets."""
    shelf = next((one for one in models if one.row == OFF_THE_SHELF), None)
    pairs: list[tuple[dict[str, PlaceAccuracy], dict[str, PlaceAccuracy]]] = []
    for result in model.results:
        found = result.get(HomeAndAway)
        if found is None or model is shelf:
            continue
        same = [] if shelf is None else [one.get(HomeAndAway) for one in shelf.results if one.seed == result.seed]
        other = _by_place(same[0]) if same and same[0] else found.shelf
        pairs += [(_by_place(found), other)] if other else []
    if not pairs:
        return {}
    gains = gains_of(pairs)
    elsewhere = [
        ({n: one[n] for n in others if n in one}, {n: two[n] for n in others if n in two}) for one, two in pairs
    ]
    if (mean := gains_of(elsewhere).get(MEAN)) is not None:
        gains[OTHERS] = mean
    return gains


def gains_of(pairs: Sequence[tuple[Mapping[str, PlaceAccuracy], Mapping[str, PlaceAccuracy]]]) -> dict[str, Interval]:
    """Gain of one model over another by place, and over all places but home, from one pair of results per seed."""
    shared = [name for name in pairs[0][0] if all(name in one and name in two for one, two in pairs)]
    values = {name: np.stack([_right(one[name]) - _right(two[name]) for one, two in pairs]) for name in shared}
    blocks = {name: pairs[0][0][name].blocks for name in shared}
    gains = {name: _interval(values[name], blocks[name]) for name in shared}
    away = [name for name in shared if name != HOME]
    if away:
        # Each place counts once, however many queries it has.
        total = sum(len(blocks[name]) for name in away)
        weighted = [values[name] * total / (len(away) * len(blocks[name])) for name in away]
        apart = np.concatenate([blocks[name] + number * 10**6 for number, name in enumerate(away)])
        gains[MEAN] = _interval(np.concatenate(weighted, axis=1), apart)
    return {name: one for name, one in gains.items() if one is not None}


def _right(found: PlaceAccuracy) -> Floats:
    """100 for each query within the radius, else 0."""
    return np.where(found.errors <= found.radius, 100.0, 0.0)


def _interval(values: Floats, blocks: Ints) -> Interval | None:
    return None if len(np.unique(blocks)) < 2 else block_bootstrap(values, blocks, seed=0)


PROTOCOL = Protocol(NAME, HomeAndAway, rows, score, sections, depends=depends, of_a_map=True)
