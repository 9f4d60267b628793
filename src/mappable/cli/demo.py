"""`mappable demo`: the main job from beginning to end, on a street that it draws itself."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mappable.cli.output import print_training, print_world
from mappable.places.picture import draw_map
from mappable.places.worlds.record import SHEET
from mappable.places.worlds.simulation import write_simulated

if TYPE_CHECKING:
    from mappable.learning.settings import Settings
    from mappable.places.table import Places

PRESET = "street-v1-demo"


def demo(
    out: Annotated[Path, typer.Argument(help="Folder for everything that the demo makes.")] = Path("demo"),
    every: Annotated[
        int, typer.Option(help="Keep each N-th image of each run, for a quicker look.", metavar="N", min=1)
    ] = 1,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="OUT may hold a demo of another version or with another N.")
    ] = False,
) -> None:
    """Draw a street in sun, snow, rain and at night, train an encoder on it, and show what that gains.

    Each step names the command that does it. Stop it whenever you like: the same command goes on from there.
    """
    street, encoder = out / "street", out / "encoder"
    folder = shlex.quote(str(street))
    typer.echo("1. Draw a street in nine runs, in all kinds of weather and light (about a minute on two cores).")
    typer.echo(f"   mappable simulate {PRESET} {folder}{f' --every {every}' if every > 1 else ''}")
    places = write_simulated(PRESET, street, every=every, overwrite=overwrite)
    typer.echo("\n2. What was drawn, and what it asks of a method:\n")
    print_world(street, places)
    typer.echo("\n3. Look at it.")
    typer.echo(f"   mappable places show {folder}")
    draw_map(places, street / "map.png")
    typer.echo(f"   the same places in each condition: {street / SHEET}")
    typer.echo(f"   the map of all runs:               {street / 'map.png'}")
    settings = _settings(every)
    typer.echo("\n4. Train an encoder on it: VGG-16 with ImageNet weights, whose last block learns (three minutes).")
    model = shlex.quote(str(encoder))
    typer.echo(f"   mappable train {folder} {model} --preset street-laptop --iterations {settings.iterations}\n")
    _train(places, street, encoder, settings, overwrite)
    print_training(encoder, places.unit)
    typer.echo("\nNext, a map of it (half a minute), and where the images of a drive are on it:")
    built, night = shlex.quote(str(out / "map")), shlex.quote(str(street / "images/test-night"))
    typer.echo(f"   mappable map build {folder} {built} --encoder {model}")
    typer.echo(f"   mappable locate {night} --map {built} --sequence")


def _settings(every: int) -> "Settings":
    """Those for a laptop, with fewer steps for fewer images."""
    from mappable.learning.settings import load_settings

    usual = load_settings("street-laptop")
    return load_settings("street-laptop", overrides={"iterations": max((usual.iterations or 0) // every, 1)})


def _train(places: "Places", street: Path, out: Path, settings: "Settings", overwrite: bool) -> None:
    """Train, or go on with it; an encoder that an earlier demo made of something else gives way to this one."""
    from mappable.features.activations import FOLDER
    from mappable.learning.folder import OtherRunError
    from mappable.learning.trainer import TrainingStopped, train
    from mappable.places.cache import find_pack

    images = find_pack(street, settings.size, settings.fit).view(places)
    try:
        try:
            train(places, images, settings, out=out, resume=True, activations=street / FOLDER)
        except OtherRunError:
            if not overwrite:
                raise
            train(places, images, settings, out=out, overwrite=True, activations=street / FOLDER)
    except TrainingStopped as stopped:
        typer.echo(f"{stopped}; the same command goes on from there", err=True)
        raise typer.Exit(130) from None
