"""`mappable simulate PRESET OUT`: draw a built-in world, with exact positions."""

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from mappable.cli.common import AsJson, print_json
from mappable.cli.output import print_world


def simulate(
    preset: Annotated[
        str, typer.Argument(metavar="PRESET", help="World to draw: {worlds}.", show_default=False)
    ],
    out: Annotated[
        Path,
        typer.Argument(
            metavar="OUT", help="Folder for the images, the table and the packed pixels."
        ),
    ],
    parts: Annotated[
        str | None,
        typer.Option(help="Parts to draw, such as main,wing (default: all).", metavar="PART,PART"),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(
            help="Size of the images, WIDTHxHEIGHT in pixels (default: the preset's).",
            metavar="WxH",
        ),
    ] = None,
    device: Annotated[
        str,
        typer.Option(
            help="Device that draws: cpu or cuda. cuda is faster; its images differ by rounding."
        ),
    ] = "cpu",
    every: Annotated[
        int, typer.Option(help="Keep every N-th image of each run.", metavar="N", min=1)
    ] = 1,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace another simulated world in OUT.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Draw a built-in world: images of several runs in different weather and light, with exact
    positions.

    The same preset always gives the same images. You may stop at any time: the same command
    continues from there.
    """
    from mappable.places.images import parse_size
    from mappable.places.summary import summarize
    from mappable.places.world_record import SHEET, read_record
    from mappable.worlds import find_world

    places = find_world(preset).draw(
        out,
        parts=None if parts is None else [part.strip() for part in parts.split(",")],
        size=parse_size(size) if size else None,
        device=device,
        overwrite=overwrite,
        every=every,
    )
    if as_json:
        print_json(asdict(summarize(places)) | {"world": read_record(out)})
        return
    print_world(out, places)
    typer.echo(f"\nview {out / SHEET}, or run: mappable places show {shlex.quote(str(out))}")
