"""Examples to look at: queries, the nearest landmark, and what each model took for it."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from mappable.arrays import Ints, Pixels
from mappable.evaluation.figures.models import few_of, models_of
from mappable.evaluation.figures.style import COARSE, FAINT, WIDTH, new_figure
from mappable.evaluation.result import Result
from mappable.evaluation.setup import Setup
from mappable.plotting import GREEN, VERMILLION, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Images = Callable[[Ints], Pixels]  # rows of the table to images (n, height, width, 3)
ACROSS = 200  # pixels of an image
RIGHT, WRONG = "✓", "✗"


def draw_gallery(results: Sequence[Result], setup: Setup, images: Images) -> "Figure":
    """A row an example, a column a model, three at most; frames tell right from wrong, and so do the signs below."""
    models = few_of(models_of(results, "qualitative"))
    examples = models[0].first.scored["qualitative"].values["examples"]
    answers = [{one["query"]: one for one in model.first.scored["qualitative"].values["examples"]} for model in models]
    titles = ["query", "nearest landmark", *(plain(model.title) for model in models)]
    height, width = images(np.array([examples[0]["query"]])).shape[1:3]
    across = min(2.0, (WIDTH - 0.4) / len(titles))
    size = 0.5 + len(examples) * (across * height / width + 0.24), COARSE, 0.4 + across * len(titles)
    figure = new_figure(*size)
    figure.set_layout_engine("constrained", w_pad=0.03, h_pad=0.02, wspace=0.0, hspace=0.0)
    panels = figure.subplots(len(examples), len(titles), squeeze=False)
    for line, example in zip(panels, examples, strict=True):
        found = [known.get(example["query"]) for known in answers]
        rows = [example["query"], example["nearest"], *(one["retrieved"] for one in found if one)]
        pictures = iter(images(np.array(rows)))
        show(line[0], next(pictures))
        line[0].set_ylabel(plain(example["condition"]), fontsize=10)
        show(line[1], next(pictures))
        line[1].set_xlabel(f"{example['nearest_metres']:.1f} {setup.unit}", fontsize=9, labelpad=3)
        for axes, one in zip(line[2:], found, strict=True):
            if one is None:
                axes.set_axis_off()
                continue
            show(axes, next(pictures))
            judge(axes, one["error"], setup)
    for axes, title in zip(panels[0], titles, strict=True):
        axes.set_title(title, fontsize=10)
    return figure


def show(axes: "Axes", picture: Pixels) -> None:
    """An image without ticks in a faint frame."""
    axes.imshow(small(picture), interpolation="bilinear")
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set(color=FAINT, linewidth=1.0)


def small(picture: Pixels) -> Pixels:
    """Hardly more pixels than are seen, for files to be small."""
    height, width = picture.shape[:2]
    size = ACROSS, max(1, round(ACROSS * height / width))
    return np.asarray(Image.fromarray(picture).resize(size, Image.Resampling.BOX))


def judge(axes: "Axes", error: float, setup: Setup) -> None:
    """The error below an image, and whether it is within the positive radius, by colour and sign."""
    right = error <= setup.positive_radius
    colour = GREEN if right else VERMILLION
    axes.spines[:].set(color=colour, linewidth=3.0)
    axes.set_xlabel(f"{RIGHT if right else WRONG} {error:.1f} {setup.unit}", fontsize=9, color=colour, labelpad=3)
