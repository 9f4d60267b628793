"""Start training as the paper did: from the Caffe weights, and from NetVLAD clusters of 30,000 Pittsburgh images."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mappable.errors import BadInputError
from mappable.evaluation import paper
from mappable.evaluation.setup import Setup
from mappable.features.weights import load_weights
from mappable.learning.settings import SYNONYMS, Settings
from mappable.places.files import load_places

WEIGHTS = "vgg16-caffe"
CLUSTER_IMAGES = 30_000  # the paper, section V.A
HINT = (
    "convert Pittsburgh 250k with: mappable convert pittsburgh FOLDER PLACES, and give --as-printed"
    " PLACES"
)


def printed_settings(name: str, cluster_images: Path, changes: Sequence[str] = ()) -> list[str]:
    """The settings of the paper's start, as KEY=VALUE; `cluster_images` is a converted set, which
    is checked here.

    `changes` are the user's own KEY=VALUE; raises if one of them changes these settings.
    """
    if name not in paper.SIZES:
        raise BadInputError(
            f"--as-printed works with the paper's sets {' and '.join(paper.SIZES)}, got {name}"
        )
    _check_pittsburgh(cluster_images)
    settings = {
        "weights": WEIGHTS,
        "init_source": str(cluster_images.resolve()),
        "init_images": str(CLUSTER_IMAGES),
    }
    for change in changes:
        key = change.partition("=")[0].strip()
        if SYNONYMS.get(key, key) in settings:
            raise BadInputError(f"--as-printed sets {key} to {settings[key]}; leave out {change}")
    return [f"{key}={value}" for key, value in settings.items()]


def _check_pittsburgh(folder: Path) -> None:
    try:
        places = load_places(folder)
    except BadInputError as error:
        raise BadInputError(f"{error}; {HINT}") from None
    others = [frame for frame in places.frames if not frame.startswith("pittsburgh")]
    if others:
        raise BadInputError(f"{folder}: frame is {others[0]!r}, expected Pittsburgh 250k; {HINT}")
    if len(places) < CLUSTER_IMAGES:
        raise BadInputError(
            f"{folder}: has {len(places):,} images, expected at least {CLUSTER_IMAGES:,}; {HINT}"
        )


def check_weights(settings: Settings) -> None:
    """Fetch the weights if they are not cached, so that missing weights raise before the images are
    read.
    """
    load_weights(settings.weights, Path(settings.weights_file) if settings.weights_file else None)


def start_of(settings: Mapping[str, Any], setup: Setup, *, as_printed: bool) -> str:
    """One sentence that names the start weights of a model, and the images of its clusters."""
    if as_printed:
        start = (
            f"As printed: Caffe weights ({WEIGHTS}), {CLUSTER_IMAGES:,} Pittsburgh images for the"
            " clusters."
        )
        return (
            f"{start} The loss is that of the authors' code, not the printed sum of residuals"
            " in m²."
        )
    source, most = settings["init_source"], settings["init_images"]
    if source == "train":
        images = f"{min(most, len(setup.places.training())):,} training images"
    else:
        images = f"at most {most:,} images of {source}"
    return (
        f"Not as printed (--as-printed): weights {settings['weights']}, {images} for the clusters."
    )
