"""`mappable demo`: the main job from beginning to end, on images that it draws itself."""

from pathlib import Path
from typing import Annotated

import typer

from mappable.cli.output import print_summary
from mappable.places.conversion import convert
from mappable.places.picture import draw_map
from mappable.places.summary import summarize
from mappable.places.worlds.sketch import draw_photos


def demo(
    out: Annotated[Path, typer.Argument(help="Folder for everything that the demo makes.")] = Path("demo"),
) -> None:
    """Draw a small town, read its geo-tagged photos into a table of places, and show the table."""
    photos, town = out / "photos", out / "town"
    typer.echo(f"1. {draw_photos(photos)} geo-tagged photos of a walk by day and one at dusk: {photos}")
    typer.echo(f"2. mappable convert photos {photos} {town}")
    places = convert("photos", photos, town)
    typer.echo(f"3. mappable places show {town}\n")
    print_summary(summarize(places))
    draw_map(places, town / "map.png")
    typer.echo(f"\nmap picture: {town / 'map.png'}")
