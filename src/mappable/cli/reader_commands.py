"""The subcommands of `mappable convert`: one per reader, and `auto`."""

import inspect
import re
import shlex
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from textwrap import dedent
from typing import Annotated, Any

import typer

from mappable.cli.common import AsJson
from mappable.cli.output import print_json, print_summary, print_table
from mappable.places.edits import Rotate
from mappable.places.images import Fit, parse_size
from mappable.places.packing import OnBadImage
from mappable.places.table import Places
from mappable.readers.registry import Reader, find_reader, reader_names

AUTO = "auto"


def names() -> list[str]:
    """The names of all subcommands."""
    return [AUTO, *reader_names()]


def command_of(name: str) -> Any:
    """The subcommand of that name."""
    return _auto_command() if name == AUTO else _command(find_reader(name))


def _run(
    reader: str,
    options: dict[str, Any],
    *,
    root: Annotated[
        Path,
        typer.Argument(
            metavar="ROOT", help="The collection: a folder, or a file if the reader accepts one."
        ),
    ],
    out: Annotated[
        Path, typer.Argument(metavar="OUT", help="Folder for places.parquet and the packed pixels.")
    ],
    size: Annotated[
        str | None,
        typer.Option(
            help="Size of the packed images, WIDTHxHEIGHT in pixels (default: the reader's).",
            metavar="WxH",
        ),
    ] = None,
    fit: Annotated[
        Fit,
        typer.Option(
            help=(
                "How images get the aspect ratio of --size. crop: keep the center; pad: add black"
                " bars; "
                "stretch: distort."
            )
        ),
    ] = "crop",
    dimensions: Annotated[
        int | None,
        typer.Option(
            help="3 if distances include z, else 2 (default: 2, or the table's own).", min=2, max=3
        ),
    ] = None,
    on_bad_image: Annotated[
        OnBadImage,
        typer.Option(help="At a damaged or missing image: stop, or drop the image and list it."),
    ] = "stop",
    no_pixels: Annotated[
        bool, typer.Option("--no-pixels", help="Write only the table, without pixels.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace another converted set in OUT.")
    ] = False,
    spacing: Annotated[
        float | None,
        typer.Option(help="Keep one image per METRES along each sequence.", metavar="METRES"),
    ] = None,
    drop_outliers: Annotated[
        bool,
        typer.Option(
            "--drop-outliers", help="Leave out positions that jump, or are far from all others."
        ),
    ] = False,
    like: Annotated[
        Path | None,
        typer.Option(
            help=(
                "Convert the positions to the frame of this map or table: its name, origin and"
                " axes."
            ),
            metavar="MAP|PLACES",
        ),
    ] = None,
    rotate: Annotated[
        Rotate,
        typer.Option(help="Turn all images clockwise by these degrees; OUT gets turned copies."),
    ] = "0",
    crop_border: Annotated[
        str | None,
        typer.Option(
            help="Cut a border off all images, in percent; OUT gets cut copies.",
            metavar="LEFT,TOP,RIGHT,BOTTOM",
        ),
    ] = None,
    undistort: Annotated[
        bool,
        typer.Option(
            help="Undistort images whose lens the reader knows; OUT gets straight copies."
        ),
    ] = True,
    as_json: AsJson = False,
) -> None:
    from mappable.places.summary import summarize
    from mappable.readers.conversion import convert, converting_again

    places = convert(
        reader,
        root,
        out,
        options=options,
        dimensions=None if dimensions is None else 3 if dimensions == 3 else 2,
        size=parse_size(size) if size else None,
        fit=fit,
        on_bad=on_bad_image,
        pixels=not no_pixels,
        overwrite=overwrite,
        spacing=spacing,
        drop_outliers=drop_outliers,
        like=None if like is None else _frames_of(like),
        rotate=rotate,
        crop_border=crop_border,
        undistort=undistort,
    )
    summary = summarize(places, converting_again(out))
    if as_json:
        print_json(asdict(summary))
        return
    print_summary(summary)
    typer.echo(
        f"written to {out}; show it again with: mappable places show {shlex.quote(str(out))}"
    )


def _frames_of(path: Path) -> Places:
    """The table at `path`, or the landmarks of the map there."""
    from mappable.places.files import load_places
    from mappable.readers.unposed import is_table

    if is_table(path):
        return load_places(path)
    from mappable.maps.folder import read_map

    return read_map(path).places


def _command(reader: Reader) -> Any:
    """The subcommand of one reader: the arguments of `_run`, then the reader's own options."""

    def run(**values: Any) -> None:
        own = {option.name: values.pop(option.name) for option in reader.options}
        values.setdefault("spacing", None)  # some readers choose images by an option of their own
        _run(reader.name, own, **values)

    left_out = {"reader", "options", *(option.name for option in reader.options)}
    left_out |= set() if reader.function("lenses") else {"undistort"}
    common = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in inspect.signature(_run, eval_str=True).parameters.values()
        if parameter.name not in left_out
    ]
    own = [
        inspect.Parameter(
            option.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=option.default,
            annotation=Annotated[
                option.type,
                typer.Option(help=option.help, rich_help_panel=f"Options of {reader.name}"),
            ],
        )
        for option in reader.options
    ]
    parameters = sorted(
        common + own, key=lambda parameter: parameter.default is not inspect.Parameter.empty
    )
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return _made(run, reader.name, reader.summary, _fenced(reader.documentation))


def _made(
    run: Callable[..., None], name: str, summary: str, documentation: str | None = None
) -> Any:
    command = typer.Typer(
        rich_markup_mode="markdown", pretty_exceptions_enable=False, add_completion=False
    )
    command.command(name=name, help=documentation, short_help=summary)(run)
    return typer.main.get_command(command)


def _auto_command() -> Any:
    """The subcommand `auto`, which looks at a collection and proposes commands."""

    def auto(
        root: Annotated[
            Path, typer.Argument(metavar="ROOT", help="The collection: a folder or a file.")
        ],
        out: Annotated[
            Path, typer.Argument(metavar="OUT", help="Folder that the proposed commands write.")
        ] = Path("OUT"),
        as_json: AsJson = False,
    ) -> None:
        """Look at a collection and propose commands that convert it.

        Nothing is converted. If several readers fit, all of them are listed: choose one.
        """
        from mappable.readers.registry import propose

        proposals = propose(root)
        if as_json:
            print_json({"proposals": [asdict(proposal) for proposal in proposals]})
            return
        for proposal in proposals:
            reader = find_reader(proposal.reader)
            typer.echo(f"{proposal.evidence}: {reader.summary}")
            if contents := reader.function("contents"):
                print_table(*contents(root), numbers=("messages",))
            command = (
                f"mappable convert {reader.name} {shlex.quote(str(root))} {shlex.quote(str(out))}"
            )
            typer.echo(f"    {command}" + (f"   # {proposal.remark}" if proposal.remark else ""))
        if len(proposals) > 1:
            typer.echo(
                f"{len(proposals)} readers fit; `mappable convert READER --help` shows what each"
                " one reads"
            )

    return _made(auto, AUTO, "Look at a collection and propose commands that convert it.")


def _fenced(text: str) -> str:
    """Markdown with fences around indented blocks; without fences, help would reflow a block at its
    start.
    """
    block = re.compile(r"(?:^ {4}.*\n?|^\n(?= {4}))+", re.MULTILINE)
    return block.sub(lambda match: f"\n```text\n{dedent(match[0]).strip()}\n```\n", text)
