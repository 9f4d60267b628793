"""`mappable evaluate MAP QUERIES OUT`: measure how well a map locates images with known positions."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from mappable.cli.common import (
    AsJson,
    DescriptorsFile,
    Device,
    EncoderFile,
    Fingerprint,
    MapFolder,
    Overwrite,
    TrustCode,
    check_new,
    encoder_or_descriptors,
    load_queries,
    report_failures,
)
from mappable.cli.output import print_ways


def evaluate(
    folder: MapFolder,
    queries: Annotated[
        Path,
        typer.Argument(
            metavar="QUERIES",
            help="Folder written by `mappable convert` or `mappable simulate`. Locates the split test, else the role "
            "query; without splits and roles all places.",
        ),
    ],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder for the result, the figures and the report.")],
    name: Annotated[str | None, typer.Option(help="Name of the result in tables (default: the name of MAP).")] = None,
    positive_radius: Annotated[
        float | None,
        typer.Option(
            help="Distance within which a match counts as correct (default: the encoder's positive radius).",
            metavar="METRES",
        ),
    ] = None,
    negative_radius: Annotated[
        float | None,
        typer.Option(help="Second, wider radius to report (default: the encoder's negative radius).", metavar="METRES"),
    ] = None,
    block: Annotated[
        float | None,
        typer.Option(
            help="Length of the route stretches that the bootstrap of confidence intervals draws "
            "(default: the wider radius).",
            metavar="METRES",
        ),
    ] = None,
    protocols: Annotated[
        str | None,
        typer.Option(
            help="Protocols to run: {protocols} (default: {map_protocols}).",
            metavar="NAME,NAME",
        ),
    ] = None,
    away: Annotated[
        list[str] | None,
        typer.Option(
            "--away",
            help="Also score the encoder on the images of another folder of `mappable convert` or `mappable simulate`. "
            "A match within RADIUS counts as correct there. May be repeated.",
            metavar="PLACES[:RADIUS]",
        ),
    ] = None,
    descriptors: DescriptorsFile = None,
    fingerprint: Fingerprint = None,
    encoder: EncoderFile = None,
    trust_code: TrustCode = False,
    device: Device = "auto",
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Locate images with known positions, and report the errors per condition, with confidence intervals.

    One table shows three ways to locate: at the nearest landmark, refined between landmarks, and as a sequence.
    Another table compares the map's confidence with simple rules that accept or reject answers.
    `mappable compare` compares the result with others.
    """
    from mappable.evaluation.evaluate import evaluate_map
    from mappable.evaluation.report import PAGE, draw_all, failures_of, write_report
    from mappable.evaluation.result import RESULT
    from mappable.maps.landmarks import Landmarks
    from mappable.places.files import load_places

    check_new(overwrite, out / RESULT, out / PAGE)
    opened = Landmarks.open(folder)
    places = load_queries(queries)
    loaded = encoder_or_descriptors(
        opened,
        load_places(queries),  # an .npy file has a row for each of them
        encoder=encoder,
        descriptors=descriptors,
        fingerprint=fingerprint,
        device=device,
        trust_code=trust_code,
    )
    command = shlex.join(["mappable", *sys.argv[1:]])
    result, setup, images = evaluate_map(
        opened,
        loaded,
        places,
        name=name or opened.name,
        positive_radius=positive_radius,
        negative_radius=negative_radius,
        block=block,
        protocols=None if protocols is None else [one.strip() for one in protocols.split(",")],
        command=command,
        away=away or (),
    )
    result.save(out)
    figures, failed = draw_all([result], setup, images.read, out / "figures")
    page = write_report([result], setup, figures, out, command=command, failed=failed)
    print_ways(result, page, as_json)
    report_failures(failures_of(page))
