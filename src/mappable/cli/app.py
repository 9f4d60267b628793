"""The application `mappable`: all commands and groups of commands."""

import inspect
import re
from collections.abc import Callable
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
        bool,
        typer.Option(
            "--version", help="Print the version and exit.", callback=_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Options of `mappable` itself."""


# Commands and groups of commands by the panels of the help, in the order of docs/commands.md.
PANELS: dict[str, tuple[Callable[..., None] | typer.Typer, ...]] = {
    "Start": (start.start,),
    "Images and tables": (convert.app, places.app, simulate.simulate),
    "Encoders": (encoders.encoders, train.train, embed.embed, export.export),
    "Maps": (map.app, locate.locate, follow.follow, densify.densify, serve.serve),
    "Recovery": (recover.recover,),
    "Evaluation": (evaluate.evaluate, compare.compare, reproduce.reproduce, demo.demo),
}
for panel, commands in PANELS.items():
    for command in commands:
        if isinstance(command, typer.Typer):
            app.add_typer(command, rich_help_panel=panel)
        else:
            app.command(rich_help_panel=panel, cls=ListingCommand)(command)


def _join_lines(group: typer.Typer) -> None:
    """Make each paragraph of a help text one line, which the terminal wraps at its own width."""
    for command in group.registered_commands:
        if command.callback is not None:
            command.help = re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.getdoc(command.callback) or "")
    for below in group.registered_groups:
        if below.typer_instance is not None:
            _join_lines(below.typer_instance)


_join_lines(app)
