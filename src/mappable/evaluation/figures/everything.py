"""All figures and animations that results have something for, in one folder."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mappable.evaluation.figures.animation import animate_localization, animate_proportionality
from mappable.evaluation.figures.curves import draw_accuracy, draw_curves, draw_rejection, draw_sweep
from mappable.evaluation.figures.gallery import Images, draw_gallery
from mappable.evaluation.figures.landmarks import draw_landmarks
from mappable.evaluation.figures.matrices import draw_matrices
from mappable.evaluation.figures.models import NothingToDrawError
from mappable.evaluation.figures.recovery import draw_map_recovery
from mappable.evaluation.figures.reliability import draw_localization
from mappable.evaluation.figures.scatter import draw_proportionality
from mappable.evaluation.figures.style import save
from mappable.evaluation.figures.variations import draw_variations
from mappable.evaluation.result import Result
from mappable.evaluation.setup import Setup
from mappable.progress import track

FIGURES: Mapping[str, Callable[..., Any]] = {
    "table1": draw_accuracy,
    "variations": draw_variations,
    "landmarks": draw_landmarks,
    "curves": draw_curves,
    "proportionality": draw_proportionality,
    "distance-matrices": draw_matrices,
    "landmark-sweep": draw_sweep,
    "localization": draw_localization,
    "rejection": draw_rejection,
    "map-recovery": draw_map_recovery,
    "qualitative": draw_gallery,
}
ANIMATIONS: Mapping[str, Callable[..., None]] = {
    "proportionality-animation": animate_proportionality,
    "localization-animation": animate_localization,
}
OF_IMAGES = (draw_gallery, animate_localization)


def draw_all(results: Sequence[Result], setup: Setup, images: Images, folder: Path) -> dict[str, Path]:
    """Write NAME.png and NAME.svg, or NAME.gif, for all that there is; gives the PNG or GIF of each name."""
    files: dict[str, Path] = {}
    every = {**FIGURES, **ANIMATIONS}
    for name, draw in track(every.items(), "Drawing", len(every)):
        given = (results, setup, images) if draw in OF_IMAGES else (results, setup)
        try:
            if name in ANIMATIONS:
                files[name] = folder / f"{name}.gif"
                draw(*given, files[name])
            else:
                files[name] = save(draw(*given), folder, name)[0]
        except NothingToDrawError:
            files.pop(name, None)
    return files
