"""`mappable demo`: the main job from beginning to end, on a street that it draws itself."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from mappable.cli.output import print_world
from mappable.places.picture import draw_map
from mappable.places.worlds.record import SHEET
from mappable.places.worlds.simulation import write_simulated

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
    """Draw a street in sun, snow, rain and at night, show what a method will be asked there, and where to look.

    Each step names the command that does it. Stop it whenever you like: the same command goes on from there.
    """
    street = out / "street"
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
