"""`mappable train PLACES OUT`: train an encoder on the images of a converted set."""

import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mappable.cli.common import AsJson, Device
from mappable.cli.output import print_chosen, print_plan, print_training, print_used_images
from mappable.errors import BadInputError
from mappable.progress import one_bar, speaks

if TYPE_CHECKING:
    from mappable.learning.auto import Plan
    from mappable.learning.choosing import Chosen
    from mappable.learning.settings import Settings
    from mappable.places.images import Fit, Size
    from mappable.places.pixels import Images
    from mappable.places.table import Places

AUTO = "auto"  # the name of no preset
# Usual time of an image in a network, and of a training step, on two cores.
IMAGE_SECONDS, STEP_SECONDS = 0.03, 0.2


def train(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="PLACES", help="Folder written by `mappable convert` or `mappable simulate`."
        ),
    ],
    out: Annotated[
        Path,
        typer.Argument(
            metavar="OUT", help="Folder for encoder.safetensors, settings, metrics and checkpoints."
        ),
    ],
    preset: Annotated[
        str | None,
        typer.Option(
            help=(
                "Preset of settings: {presets} (default: auto, which derives them from images and"
                " machine)."
            )
        ),
    ] = None,
    settings_file: Annotated[
        Path | None,
        typer.Option(
            "--settings", help="YAML file with settings that override the preset's.", metavar="FILE"
        ),
    ] = None,
    values: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help=(
                "Change any setting, such as loss=triplet, iterations=0 or seed=1; may be repeated."
                " Losses: {losses}."
            ),
            metavar="KEY=VALUE",
        ),
    ] = None,
    more: Annotated[
        list[Path] | None,
        typer.Option(
            help="Also train on this converted set, for example on another disk. May be repeated.",
            metavar="PLACES",
        ),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(
            help="Without a preset: deadline in minutes. More minutes continue a stopped training.",
            min=0.1,
        ),
    ] = None,
    device: Device = "auto",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Start over, and replace the training run in OUT.")
    ] = False,
    as_json: AsJson = False,
    show_settings: Annotated[
        bool,
        typer.Option(
            "--show-settings", help="Print the merged settings as YAML, without training."
        ),
    ] = False,
) -> None:
    """Train an encoder on the images of the split `train`; without splits, on all images except
    queries.

    Without a preset and a settings file, the command looks at the images and the machine, prints
    what it chose and why, and trains. It keeps the off-the-shelf encoder if training cannot help,
    or did not help on held-out images.

    Settings come from a preset, a YAML file and `--set`; later ones override earlier ones.
    `--show-settings` prints the names and values of all settings. You may stop with Ctrl-C or kill
    the command: the same command continues, to the same result.

    Images that do not fit on one disk: convert them in parts, and name the other parts with
    `--more`. With several GPUs: `torchrun --nproc-per-node 4 -m mappable train PLACES OUT --preset
    NAME ...`
    """
    from mappable.learning.settings import load_settings, settings_to_yaml

    given = values or []
    automatic = preset in (None, AUTO) and settings_file is None
    if minutes is not None and not automatic:
        raise BadInputError(
            "--minutes is for training without a preset: remove it, or remove --preset and"
            " --settings"
        )
    if automatic and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise BadInputError(
            "several processes need fixed settings: give --preset NAME or --settings FILE"
        )
    if automatic and more:
        raise BadInputError("--more needs fixed settings: give --preset NAME or --settings FILE")
    folders = [folder, *(more or [])]
    for one in folders:
        if one.is_file():
            raise BadInputError(
                f"{one}: is a file; give the folder that contains the table and the images"
            )
    if automatic:
        _train_automatically(
            folder, out, given, minutes=minutes, device=device, overwrite=overwrite, as_json=as_json,
            show_settings=show_settings,
        )  # fmt: skip
        return
    settings = load_settings(preset, settings_file, given)
    if show_settings:
        typer.echo(settings_to_yaml(settings), nl=False)
        return

    from mappable.features.activations import FOLDER
    from mappable.learning.trainer import train as run
    from mappable.places.files import load_places
    from mappable.places.joining import concatenate
    from mappable.places.pixels import ImageParts

    tables = [load_places(one) for one in folders]
    places = concatenate(tables) if more else tables[0]
    if speaks():
        print_used_images(places, "training on", references=places.training())
    with stoppable(), one_bar("train", stages_of(len(places), settings)):
        parts = [
            _packed(table, one, settings.size, settings.fit)
            for table, one in zip(tables, folders, strict=True)
        ]
        run(
            places,
            ImageParts.of(parts) if more else parts[0],
            settings,
            out=out,
            device=device,
            overwrite=overwrite,
            activations=folder / FOLDER,
        )
    if speaks():
        print_training(out, as_json)


def _train_automatically(
    folder: Path, out: Path, given: list[str], *, minutes: float | None, device: str, overwrite: bool, as_json: bool,
    show_settings: bool,
) -> None:  # fmt: skip
    from mappable.learning.settings import settings_to_yaml
    from mappable.places.files import load_places

    places = load_places(folder)
    chosen_plan = plan_of(places, given, device=device)
    if show_settings:
        typer.echo(settings_to_yaml(chosen_plan.settings), nl=False)
        return
    print_used_images(places, "training on", references=places.training())
    print_plan(chosen_plan)
    with (
        stoppable(),
        one_bar("train", stages_of(len(places), chosen_plan.off_the_shelf, chosen_plan.trained)),
    ):
        chosen = run_plan(
            folder, places, chosen_plan, out, minutes=minutes, device=device, overwrite=overwrite
        )
    print_chosen(chosen, out, as_json)


def stages_of(images: int, *runs: "Settings | None") -> list[tuple[str, float]]:
    """The bars of some training runs one after the other, and the seconds that each usually takes,
    for `one_bar`.
    """
    stages = [("packing images", IMAGE_SECONDS * images / 10)]
    for settings in filter(None, runs):
        if settings.iterations != 0:
            stages += [("frozen layers", IMAGE_SECONDS * images)]
            stages += [("training", STEP_SECONDS * (settings.iterations or images))]
        stages += [("descriptors", IMAGE_SECONDS * images)]
    return stages


def plan_of(places: "Places", given: list[str], *, device: str) -> "Plan":
    """What `auto` chooses, with settings of the user as KEY=VALUE."""
    from mappable.features.devices import find_device
    from mappable.learning.auto import plan
    from mappable.learning.setting_layers import read_overrides

    changes = {name: one.value for name, one in read_overrides(given).items()}
    return plan(places, gpu=find_device(device).type == "cuda", changes=changes)


def run_plan(
    folder: Path,
    places: "Places",
    plan: "Plan",
    out: Path,
    *,
    minutes: float | None,
    device: str,
    overwrite: bool,
) -> "Chosen":
    """Train as planned, and write the encoder that was better to `out`. The deadline counts from
    after packing.
    """
    from mappable.features.activations import FOLDER
    from mappable.learning.choosing import train_as_planned

    settings = plan.settings
    images = _packed(places, folder, settings.size, settings.fit)
    return train_as_planned(
        places,
        images,
        plan,
        out=out,
        device=device,
        overwrite=overwrite,
        activations=folder / FOLDER,
        minutes=math.inf if minutes is None else minutes,
    )


@contextmanager
def stoppable() -> Iterator[None]:
    """Exit with 130 if the user stops the run."""
    from mappable.learning.trainer import TrainingStopped

    try:
        yield
    except TrainingStopped as stopped:
        if speaks():
            typer.echo(f"{stopped}; the same command continues from there", err=True)
        sys.exit(130)


def _packed(places: "Places", folder: Path, size: "Size", fit: "Fit") -> "Images":
    """The packed images of that size; packs them first if some are missing."""
    from mappable.places.cache import find_packed
    from mappable.places.packing import pack_images

    images = find_packed(folder, places, size, fit)
    return images or pack_images(places, folder, size=size, fit=fit, wait=True)[0].view(places)
