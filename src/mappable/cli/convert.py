"""`mappable convert READER ROOT OUT`: convert an image collection to a table of places and packed pixels."""

from typing import Any

import typer
from typer.core import TyperGroup


class Readers(TyperGroup):
    """One subcommand per reader, made on demand from the reader's signature and docstring."""

    def list_commands(self, ctx: Any) -> list[str]:
        from mappable.cli.reader_commands import names

        return names()

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        from mappable.cli.reader_commands import command_of, names

        if cmd_name not in names():  # a usage error, like any unknown command
            ctx.fail(f"unknown reader {cmd_name!r}; the readers are {', '.join(names())}")
        return command_of(cmd_name)


app = typer.Typer(
    name="convert",
    cls=Readers,
    help=(
        "Convert an image collection to a table of places and packed pixels: `mappable convert"
        " READER ROOT OUT`."
    ),
    no_args_is_help=True,
    subcommand_metavar="READER ROOT OUT [OPTIONS]",
    rich_markup_mode="markdown",
)


@app.callback()
def _readers() -> None:
    """The group itself has no options."""
