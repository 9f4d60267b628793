"""Show examples: random queries of each condition, the nearest landmark, and the retrieved landmark."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from mappable.arrays import Floats, Ints, Pixels
from mappable.evaluation.figure import COARSE, FAINT, WIDTH, new_figure
from mappable.evaluation.models import Model, few_of
from mappable.evaluation.protocol import Drawing, NothingToDrawError, Protocol, Section, View
from mappable.evaluation.scoring import Scoring
from mappable.evaluation.setup import Setup
from mappable.evaluation.tables import Column, table
from mappable.maps.choosing import greedy_landmarks
from mappable.plotting import BLACK, GREEN, VERMILION, plain
from mappable.randomness import Purpose, generator

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "qualitative"
THUMBNAIL_WIDTH = 200  # pixels
EXAMPLES = 6  # in all, or one per condition if there are more conditions


@dataclass(frozen=True)
class Examples:
    """Queries, their nearest landmarks on the ground, and the retrieved landmarks, all as rows of
    the table.
    """

    landmarks: Ints  # to retrieve from
    queries: Ints
    nearest: Ints
    retrieved: Ints


def rows(setup: Setup) -> Ints:
    """Rows whose images need descriptors."""
    return np.concatenate([_queries(setup), _landmarks(setup)])


def run(scoring: Scoring) -> Examples:
    """Retrieve the same queries for every model."""
    queries, landmarks = _queries(scoring.setup), _landmarks(scoring.setup)
    nearest = landmarks[scoring.metres(queries, landmarks).argmin(axis=1)]
    return Examples(
        landmarks, queries, nearest, landmarks[scoring.squared(queries, landmarks).argmin(axis=1)]
    )


def _queries(setup: Setup) -> Ints:
    """Random queries, equally many per condition: six in all, or one per condition if there are
    more than six.
    """
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


def _metres(view: View, queries: Ints, landmarks: Ints) -> Floats:
    """Distances on the ground between rows."""
    at = view.setup.places.positions
    distances: Floats = np.linalg.norm(at[queries] - at[landmarks], axis=1)
    return distances


def report(view: View, models: list[Model]) -> Section:
    """The gallery, and its errors in numbers."""
    first, places = models[0].first(Examples), view.setup.places
    sentences = [
        "Random queries of each condition, the nearest landmark on the ground, and the landmark"
        f" that each model retrieves among {len(first.landmarks):,}."
    ]
    retrieved = {model.title: model.first(Examples).retrieved for model in models}
    errors = table(
        "examples",
        Column("Query", places.place_id[first.queries].tolist()),
        Column(
            "Condition", [condition or "unnamed" for condition in places.condition[first.queries]]
        ),
        Column("Nearest landmark", _metres(view, first.queries, first.nearest).tolist(), 2),
        *(
            Column(title, _metres(view, first.queries, rows).tolist(), 2)
            for title, rows in retrieved.items()
        ),
        caption=f"Errors of the examples, {view.unit}",
        folded=True,
    )
    return Section(NAME, "Examples", sentences, [errors], (NAME,))


def draw(view: View) -> "Figure":
    """A row per example, a column per model, three at most; frame colors and signs mark correct and
    wrong matches.
    """
    models, images = few_of(view.drawn(Examples)), view.images
    if images is None:
        raise NothingToDrawError("no images to show")
    first = models[0].first(Examples)
    columns = {"query": first.queries, "nearest landmark": first.nearest}
    columns |= {plain(model.title): model.first(Examples).retrieved for model in models}
    height, width = images(first.queries[:1]).shape[1:3]
    across = min(2.0, (WIDTH - 0.4) / len(columns))
    lines = len(first.queries)
    figure = new_figure(
        0.5 + lines * (across * height / width + 0.24), COARSE, 0.4 + across * len(columns)
    )
    figure.set_layout_engine("constrained", w_pad=0.03, h_pad=0.02, wspace=0.0, hspace=0.0)
    panels = figure.subplots(lines, len(columns), squeeze=False)
    for place, (title, rows) in enumerate(columns.items()):
        panels[0, place].set_title(title, fontsize=10)
        metres = _metres(view, first.queries, rows)
        for axes, picture, error in zip(panels[:, place], images(rows), metres, strict=True):
            axes.imshow(_small(picture), interpolation="bilinear")
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set(color=FAINT, linewidth=1.0)
            right = error <= view.setup.positive_radius
            color, mark = (GREEN, "✓ ") if right else (VERMILION, "✗ ")
            if place > 1:
                axes.spines[:].set(color=color, linewidth=3.0)
            if place:
                label = f"{mark if place > 1 else ''}{error:.1f} {view.unit}"
                axes.set_xlabel(label, fontsize=9, color=color if place > 1 else BLACK, labelpad=3)
    for axes, condition in zip(
        panels[:, 0], view.setup.places.condition[first.queries], strict=True
    ):
        axes.set_ylabel(plain(condition), fontsize=10)
    return figure


def _small(picture: Pixels) -> Pixels:
    """Shrink an image to about the pixels that are visible, to keep files small."""
    height, width = picture.shape[:2]
    size = THUMBNAIL_WIDTH, max(1, round(THUMBNAIL_WIDTH * height / width))
    return np.asarray(Image.fromarray(picture).resize(size, Image.Resampling.BOX))


CAPTION = (
    "A query, the nearest landmark, and the landmark that some models retrieve, with the error."
)
DRAWING = Drawing(NAME, CAPTION, draw)
PROTOCOL = Protocol(NAME, Examples, rows, run, report, (DRAWING,))
