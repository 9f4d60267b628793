"""`mappable train PLACES OUT`: train an encoder on the images of a converted set."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mappable.cli.common import AsJson, Device
from mappable.cli.output import print_training, print_used_images
from mappable.errors import BadInputError
from mappable.progress import speaks

if TYPE_CHECKING:
    from mappable.places.images import Fit, Size
    from mappable.places.pixels import Images
    from mappable.places.table import Places


def train(
    folder: Annotated[
        Path, typer.Argument(metavar="PLACES", help="Folder written by `mappable convert` or `mappable simulate`.")
    ],
    out: Annotated[
        Path, typer.Argument(metavar="OUT", help="Folder for encoder.safetensors, settings, metrics and checkpoints.")
    ],
    preset: Annotated[
        str | None,
        typer.Option(help="Preset of settings: {presets} (default: the preset of a simulated world, else none)."),
    ] = None,
    settings_file: Annotated[
        Path | None,
        typer.Option("--settings", help="YAML file with settings that override the preset's.", metavar="FILE"),
    ] = None,
    loss: Annotated[str | None, typer.Option(help="Loss: {losses} (default: from the settings).")] = None,
    iterations: Annotated[
        int | None,
        typer.Option(help="Training steps; 0 gives the off-the-shelf encoder (default: from the settings)."),
    ] = None,
    trainable: Annotated[
        str | None,
        typer.Option(
            help="Layers to train (default: from the settings). all: every layer; last: only the last block and the "
            "aggregator, for a laptop."
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of all random choices (default: from the settings).")] = None,
    values: Annotated[
        list[str] | None, typer.Option("--set", help="Change any setting; may be repeated.", metavar="KEY=VALUE")
    ] = None,
    device: Device = "auto",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Start over, and replace the training run in OUT.")
    ] = False,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Also write logs for TensorBoard to OUT/tensorboard.")
    ] = False,
    as_json: AsJson = False,
    show_settings: Annotated[
        bool, typer.Option("--show-settings", help="Print the merged settings as YAML, without training.")
    ] = False,
) -> None:
    """Train an encoder on the images of the split `train`; without splits, on all images except queries.

    Settings come from a preset, a YAML file and `--set`; later ones override earlier ones. `--show-settings` prints
    the names and values of all settings. You may stop with Ctrl-C or kill the command: the same command continues, to
    the same result.

    With several GPUs: `torchrun --nproc-per-node 4 -m mappable train PLACES OUT ...`
    """
    from mappable.learning.settings import load_settings, settings_to_yaml

    flags = {"loss": loss, "iterations": iterations, "trainable": trainable, "seed": seed}
    given = [f"{name}={value}" for name, value in flags.items() if value is not None]
    settings = load_settings(preset or _preset_of(folder), settings_file, [*(values or []), *given])
    if show_settings:
        typer.echo(settings_to_yaml(settings), nl=False)
        return

    from mappable.features.activations import FOLDER
    from mappable.learning.trainer import TrainingStopped
    from mappable.learning.trainer import train as run
    from mappable.places.files import load_places

    if folder.is_file():
        raise BadInputError(f"{folder}: is a file; give the folder that contains the table and the images")
    places = load_places(folder)
    if speaks():
        print_used_images(places, "training on", references=places.training())
    try:
        run(
            places,
            _packed(places, folder, settings.size, settings.fit),
            settings,
            out=out,
            device=device,
            overwrite=overwrite,
            tensorboard=tensorboard,
            activations=folder / FOLDER,
        )
    except TrainingStopped as stopped:
        if speaks():
            typer.echo(f"{stopped}; the same command continues from there", err=True)
        sys.exit(130)
    if speaks():
        print_training(out, places.unit, as_json)


def _packed(places: "Places", folder: Path, size: "Size", fit: "Fit") -> "Images":
    """The packed images of that size; packs them first if some are missing."""
    from mappable.places.cache import find_packed
    from mappable.places.packing import pack_images

    images = find_packed(folder, places, size, fit)
    return images or pack_images(places, folder, size=size, fit=fit, wait=True)[0].view(places)


def _preset_of(folder: Path) -> str | None:
    """The preset of a simulated world, or None for any other folder."""
    from mappable.places.world_record import RECORD, read_record

    return str(read_record(folder)["frame"]).split("-")[0] if (folder / RECORD).is_file() else None
