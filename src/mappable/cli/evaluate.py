"""`mappable evaluate MAP QUERIES OUT`: how well a map locates images whose positions are known."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from mappable.cli.common import AsJson, Device, EncoderFile, MapFolder, Overwrite, check_new, end_with, queries_of
from mappable.cli.output import print_ways


def evaluate(
    folder: MapFolder,
    queries: Annotated[
        Path,
        typer.Argument(
            metavar="QUERIES",
            help="Folder made by `mappable convert` or `mappable simulate`: the split test, or the role query, or "
            "without splits and roles all places are located.",
        ),
    ],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder for the result, the figures and the report.")],
    name: Annotated[str | None, typer.Option(help="Name of the result in tables (default: the map's folder).")] = None,
    positive_radius: Annotated[
        float | None,
        typer.Option(
            help="Distance within which a match counts as correct (default: the encoder's positive radius).",
            metavar="METRES",
        ),
    ] = None,
    negative_radius: Annotated[
        float | None,
        typer.Option(
            help="Wider radius that is reported as well (default: the encoder's negative radius).", metavar="METRES"
        ),
    ] = None,
    block: Annotated[
        float | None,
        typer.Option(
            help="Length of the stretches that confidence intervals draw (default: the wider radius).", metavar="METRES"
        ),
    ] = None,
    protocols: Annotated[
        str | None,
        typer.Option(
            help="Protocols to run: {protocols} (default: {map_protocols}).",
            metavar="NAME,NAME",
        ),
    ] = None,
    encoder: EncoderFile = None,
    device: Device = "auto",
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Locate images whose positions are known, and report the errors per condition, with confidence intervals.

    A table shows three ways to locate: at the nearest landmark, refined between landmarks, and as a sequence. Another
    compares what is confident with plain rules. The result can be compared with others: `mappable compare`.
    """

    from mappable.evaluation.evaluate import evaluate_map
    from mappable.evaluation.report import PAGE, draw_all, failures_of, write_report
    from mappable.evaluation.result import RESULT
    from mappable.maps.encoders import encoder_of
    from mappable.maps.map import Map

    check_new(overwrite, out / RESULT, out / PAGE)
    opened = Map.open(folder)
    places = queries_of(queries)
    loaded = encoder_of(opened, encoder, device)
    command = shlex.join(["mappable", *sys.argv[1:]])
    result, setup, images = evaluate_map(
        opened,
        loaded,
        places,
        name=name or folder.resolve().name,
        positive_radius=positive_radius,
        negative_radius=negative_radius,
        block=block,
        protocols=None if protocols is None else [one.strip() for one in protocols.split(",")],
        command=command,
    )
    result.save(out)
    figures, failed = draw_all([result], setup, images.read, out / "figures")
    page = write_report([result], setup, figures, out, command=command, failed=failed)
    print_ways(result, page, as_json)
    end_with(failures_of(page))
