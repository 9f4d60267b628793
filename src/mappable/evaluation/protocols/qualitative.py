"""Show examples: random queries of each condition, the nearest landmark, and the retrieved landmark."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mappable.arrays import Ints
from mappable.evaluation.models import Model, few_of
from mappable.evaluation.protocol import Drawing, NothingToDrawError, Protocol, Section, View, named
from mappable.evaluation.scoring import Scoring
from mappable.evaluation.setup import Setup
from mappable.evaluation.style import COARSE, WIDTH, new_figure, show, show_error
from mappable.evaluation.tables import Column, table
from mappable.maps.choosing import greedy_landmarks
from mappable.plotting import plain
from mappable.randomness import Purpose, generator

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EXAMPLES = 6  # in all, or one per condition if there are more conditions


@dataclass(frozen=True)
class Example:
    """A query, its nearest landmark on the ground, and the retrieved landmark, as rows of the table."""

    condition: str
    query: int
    nearest: int
    nearest_distance: float
    retrieved: int
    error: float


@dataclass(frozen=True)
class Examples:
    """Examples of retrieval, and the landmarks to retrieve from."""

    landmarks: Ints  # rows of the table
    examples: list[Example]


def rows(setup: Setup) -> Ints:
    """Rows whose images need descriptors."""
    return np.concatenate([_queries(setup), _landmarks(setup)])


def score(scoring: Scoring) -> Examples:
    """Retrieve the same queries for every model."""
    setup, queries = scoring.setup, _queries(scoring.setup)
    landmarks = _landmarks(setup)
    metres = scoring.metres(queries, landmarks)
    retrieved = scoring.squared(queries, landmarks).argmin(axis=1)
    examples = [
        Example(
            condition=str(setup.places.condition[query]),
            query=int(query),
            nearest=int(landmarks[metres[number].argmin()]),
            nearest_distance=float(metres[number].min()),
            retrieved=int(landmarks[retrieved[number]]),
            error=float(metres[number, retrieved[number]]),
        )
        for number, query in enumerate(queries)
    ]
    return Examples(landmarks, examples)


def _queries(setup: Setup) -> Ints:
    """Random queries, equally many per condition: six in all, or one per condition if there are more than six."""
    conditions = setup.places.condition[setup.queries]
    names = sorted(set(conditions))
    each = max(1, EXAMPLES // len(names))
    random = generator(0, Purpose.EXAMPLES)
    chosen = [random.permutation(setup.queries[conditions == name])[:each] for name in names]
    return np.concatenate(chosen)


def _landmarks(setup: Setup) -> Ints:
    gallery = setup.gallery if len(setup.gallery) else setup.references
    count = min(setup.gallery_landmarks, len(gallery))
    return gallery[greedy_landmarks(setup.places[gallery], count)]


def sections(view: View, models: list[Model]) -> list[Section]:
    """The gallery, and its errors in numbers."""
    first, names = models[0].first(Examples), view.setup.places.place_id
    sentences = [
        "Random queries of each condition, the nearest landmark on the ground, and the landmark that each model "
        f"retrieves among {len(first.landmarks):,}."
    ]
    errors = table(
        "examples",
        Column("Query", [str(names[one.query]) for one in first.examples]),
        Column("Condition", [named(one.condition) for one in first.examples]),
        Column("Nearest landmark", [one.nearest_distance for one in first.examples], 2),
        *(Column(model.title, [one.error for one in model.first(Examples).examples], 2) for model in models),
        caption=f"Errors of the examples, {view.unit}",
        folded=True,
    )
    return [Section("qualitative", "Examples", sentences, [errors], ("qualitative",))]


def draw(view: View) -> "Figure":
    """A row per example, a column per model, three at most; frame colors and signs mark correct and wrong matches."""
    models, images = few_of(view.drawn(Examples)), view.images
    if images is None:
        raise NothingToDrawError("no images to show")
    examples = models[0].first(Examples).examples
    answers = [{one.query: one for one in model.first(Examples).examples} for model in models]
    titles = ["query", "nearest landmark", *(plain(model.title) for model in models)]
    height, width = images(np.array([examples[0].query])).shape[1:3]
    across = min(2.0, (WIDTH - 0.4) / len(titles))
    size = 0.5 + len(examples) * (across * height / width + 0.24), COARSE, 0.4 + across * len(titles)
    figure = new_figure(*size)
    figure.set_layout_engine("constrained", w_pad=0.03, h_pad=0.02, wspace=0.0, hspace=0.0)
    panels = figure.subplots(len(examples), len(titles), squeeze=False)
    for line, example in zip(panels, examples, strict=True):
        found = [known.get(example.query) for known in answers]
        rows = [example.query, example.nearest, *(one.retrieved for one in found if one)]
        pictures = iter(images(np.array(rows)))
        show(line[0], next(pictures))
        line[0].set_ylabel(plain(example.condition), fontsize=10)
        show(line[1], next(pictures))
        line[1].set_xlabel(f"{example.nearest_distance:.1f} {view.unit}", fontsize=9, labelpad=3)
        for axes, one in zip(line[2:], found, strict=True):
            if one is None:
                axes.set_axis_off()
                continue
            show(axes, next(pictures))
            show_error(axes, one.error, view.setup)
    for axes, title in zip(panels[0], titles, strict=True):
        axes.set_title(title, fontsize=10)
    return figure


CAPTION = "A query, the nearest landmark, and the landmark that some models retrieve, with the error."
DRAWING = Drawing("qualitative", CAPTION, draw)
PROTOCOL = Protocol("qualitative", Examples, rows, score, sections, (DRAWING,), of_a_map=True)
