"""The application `mappable`: all commands and groups of commands."""

import inspect
import re
from typing import Annotated

import typer

from mappable.cli import (
    compare,
    convert,
    demo,
    densify,
    embed,
    encoders,
    evaluate,
    export,
    follow,
    locate,
    map,
    places,
    recover,
    reproduce,
    serve,
    simulate,
    start,
    train,
    weights,
)
from mappable.cli.names import ListingCommand

app = typer.Typer(
    name="mappable",
    help="Mappable learns image features whose distances are metres.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"mappable {version('mappable')}")
        raise typer.Exit


@app.callback()
def _mappable(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Options of `mappable` itself."""


START, IMAGES, ENCODERS, MAPS = (
    "Start",
    "Images and tables",
    "Encoders",
    "Maps",
)  # panels of the help, as on docs/commands.md
RECOVERY, EVALUATION = "Recovery", "Evaluation"

app.command(rich_help_panel=START)(start.start)
app.add_typer(convert.app, name="convert", rich_help_panel=IMAGES)
app.add_typer(places.app, name="places", rich_help_panel=IMAGES)
app.command(rich_help_panel=IMAGES, cls=ListingCommand)(simulate.simulate)
app.command(rich_help_panel=ENCODERS)(encoders.encoders)
app.command(rich_help_panel=ENCODERS, cls=ListingCommand)(weights.weights)
app.command(rich_help_panel=ENCODERS, cls=ListingCommand)(train.train)
app.command(rich_help_panel=ENCODERS)(embed.embed)
app.command(rich_help_panel=ENCODERS)(export.export)
app.add_typer(map.app, name="map", rich_help_panel=MAPS)
app.command(rich_help_panel=MAPS)(locate.locate)
app.command(rich_help_panel=MAPS)(follow.follow)
app.command(rich_help_panel=MAPS)(densify.densify)
app.command(rich_help_panel=MAPS)(serve.serve)
app.add_typer(recover.app, name="recover", rich_help_panel=RECOVERY)
app.command(rich_help_panel=EVALUATION, cls=ListingCommand)(evaluate.evaluate)
app.command(rich_help_panel=EVALUATION)(compare.compare)
app.command(rich_help_panel=EVALUATION, cls=ListingCommand)(reproduce.reproduce)
app.command(rich_help_panel=EVALUATION)(demo.demo)


def _join_lines(group: typer.Typer) -> None:
    """Make each paragraph of a help text one line, which the terminal wraps at its own width."""
    for command in group.registered_commands:
        if command.callback is not None:
            command.help = re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.getdoc(command.callback) or "")
    for below in group.registered_groups:
        if below.typer_instance is not None:
            _join_lines(below.typer_instance)


_join_lines(app)
