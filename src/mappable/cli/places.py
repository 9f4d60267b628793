"""`mappable places show OUT`: what a converted set holds."""

import json
from pathlib import Path
from typing import Annotated

import typer

from mappable.cli.output import print_summary
from mappable.errors import BadInputError
from mappable.places.files import load_places
from mappable.places.picture import draw_map

app = typer.Typer(help="Look at tables of places.", no_args_is_help=True)


@app.callback()
def _verbs() -> None:
    """Keeps `show` a verb of its own."""


@app.command()
def show(
    table: Annotated[
        Path, typer.Argument(metavar="OUT", help="Folder written by `mappable convert`, or a table of places.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else.")] = False,
    picture: Annotated[
        Path | None, typer.Option(help="Where to draw the map (default: map.png beside the table).", metavar="FILE")
    ] = None,
) -> None:
    """Counts a sequence and condition, extent, spacing, warnings, and a map picture."""
    from mappable.places.summary import summarize

    places = load_places(table)
    summary = summarize(places)
    target = picture or (table if table.is_dir() else table.parent) / "map.png"
    drawn: str | None = str(target)
    if not as_json:
        print_summary(summary)
    try:
        draw_map(places, target)
    except BadInputError as error:
        if picture:
            raise
        typer.echo(f"warning: {error}; say --picture FILE", err=True)
        drawn = None
    if as_json:
        typer.echo(json.dumps(summary.to_json() | {"picture": drawn}, indent=2))
    elif drawn:
        typer.echo(f"map picture: {drawn}")
