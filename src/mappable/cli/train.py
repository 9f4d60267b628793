"""`mappable train PLACES OUT`: an encoder learns from the images of a converted set."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mappable.cli.common import AsJson, Device
from mappable.cli.output import print_taken, print_training
from mappable.errors import BadInputError
from mappable.progress import speaks

if TYPE_CHECKING:
    from mappable.places.images import Fit, Size
    from mappable.places.pixels import Images
    from mappable.places.table import Places


def train(
    folder: Annotated[
        Path, typer.Argument(metavar="PLACES", help="Folder made by `mappable convert` or `mappable simulate`.")
    ],
    out: Annotated[
        Path, typer.Argument(metavar="OUT", help="Folder for encoder.safetensors, settings, metrics and checkpoints.")
    ],
    preset: Annotated[
        str | None,
        typer.Option(help="Preset of settings: {presets} (default: that of a simulated world)."),
    ] = None,
    settings_file: Annotated[
        Path | None, typer.Option("--settings", help="YAML file of settings that replace the preset's.", metavar="FILE")
    ] = None,
    loss: Annotated[str | None, typer.Option(help="Loss: {losses}.")] = None,
    iterations: Annotated[int | None, typer.Option(help="Training steps; 0 gives the off-the-shelf encoder.")] = None,
    trainable: Annotated[
        str | None, typer.Option(help="Layers to train: all, or conv5, the last block and NetVLAD alone, for a laptop.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of all random choices.")] = None,
    values: Annotated[
        list[str] | None, typer.Option("--set", help="Set any setting; may be repeated.", metavar="KEY=VALUE")
    ] = None,
    device: Device = "auto",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Begin anew, and replace the run that OUT holds.")
    ] = False,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Also write OUT/tensorboard.")] = False,
    as_json: AsJson = False,
    show_settings: Annotated[
        bool, typer.Option("--show-settings", help="Print the merged settings as YAML, and do nothing else.")
    ] = False,
) -> None:
    """Train an encoder on the images of the split `train`, or without splits on all images that are not queries.

    Settings come from a preset, a YAML file and `--set`, in that order; docs/settings.md explains each. Stop it with
    Ctrl-C, or kill it: the same command goes on to the same result. With several GPUs:
    `torchrun --nproc-per-node 4 -m mappable train PLACES OUT ...`
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
        raise BadInputError(f"{folder}: is a file; give the folder that holds the table and the images")
    places = load_places(folder)
    if speaks():
        print_taken(places, "training on", references=places.training())
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
            typer.echo(f"{stopped}; the same command goes on from there", err=True)
        sys.exit(130)
    if speaks():
        print_training(out, places.unit, as_json)


def _packed(places: "Places", folder: Path, size: "Size", fit: "Fit") -> "Images":
    """The images as the pack of that size holds them; if there is none yet, or not of all of them, it is made first."""
    from mappable.places.cache import find_packed
    from mappable.places.packing import pack_images

    images = find_packed(folder, places, size, fit)
    return images or pack_images(places, folder, size=size, fit=fit, wait=True)[0].view(places)


def _preset_of(folder: Path) -> str | None:
    """The preset that belongs to a simulated world."""
    from mappable.places.world_record import RECORD, read_record

    return str(read_record(folder)["frame"]).split("-")[0] if (folder / RECORD).is_file() else None
