"""The application `mappable`: all commands and groups of commands."""

from typing import Annotated

import typer

from mappable.cli import (
    compare,
    convert,
    demo,
    densify,
    embed,
    evaluate,
    export,
    locate,
    map,
    places,
    recover,
    reproduce,
    selfcheck,
    serve,
    simulate,
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


app.add_typer(convert.app, name="convert")
app.add_typer(places.app, name="places")
app.command()(simulate.simulate)
app.command(cls=ListingCommand)(weights.weights)
app.command(cls=ListingCommand)(train.train)
app.command()(embed.embed)
app.command()(export.export)
app.add_typer(map.app, name="map")
app.command()(locate.locate)
app.command()(densify.densify)
app.add_typer(recover.app, name="recover")
app.command()(serve.serve)
app.command(cls=ListingCommand)(evaluate.evaluate)
app.command()(compare.compare)
app.command(cls=ListingCommand)(reproduce.reproduce)
app.command()(demo.demo)
app.command()(selfcheck.selfcheck)
