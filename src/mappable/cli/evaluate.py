"""`mappable evaluate MAP QUERIES OUT`: measure how well a map locates images with known positions."""

import json
import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
from mappable.cli.output import accuracy_json, print_accuracy, print_table

if TYPE_CHECKING:
    from mappable.evaluation.result import Result
    from mappable.evaluation.setup import Setup


def evaluate(
    folder: MapFolder,
    queries: Annotated[
        Path,
        typer.Argument(
            metavar="QUERIES",
            help=(
                "Folder written by `mappable convert` or `mappable simulate`. Locates the split"
                " test, else the role "
                "query; without splits and roles all places."
            ),
        ),
    ],
    out: Annotated[
        Path,
        typer.Argument(metavar="OUT", help="Folder for the result, the figures and the report."),
    ],
    name: Annotated[
        str | None, typer.Option(help="Name of the result in tables (default: the name of MAP).")
    ] = None,
    positive_radius: Annotated[
        float | None,
        typer.Option(
            help=(
                "Distance within which a match counts as correct (default: the encoder's positive"
                " radius)."
            ),
            metavar="METRES",
        ),
    ] = None,
    negative_radius: Annotated[
        float | None,
        typer.Option(
            help="Second, wider radius to report (default: the encoder's negative radius).",
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
            help=(
                "Also run the protocol home-and-away, with the images of another folder of"
                " `mappable convert` or "
                "`mappable simulate`. A match within RADIUS counts as correct there. May be"
                " repeated."
            ),
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
    """Locate images with known positions: found, error, confidence and intervals, with what chance
    would give.

    One table shows three ways to locate: at the nearest landmark, refined between landmarks, and as
    a sequence. Another table compares the map's confidence with simple rules that accept or reject
    answers. The paper's curves and figures, and places away from home, are other protocols: ask for
    them by name. `mappable compare` compares the result with others.
    """
    from mappable.evaluation.evaluate import evaluate_map
    from mappable.evaluation.report import PAGE, failures_of, write_report
    from mappable.evaluation.result import RESULT
    from mappable.localization.map import Map
    from mappable.maps.landmarks import Landmarks
    from mappable.places.files import load_places

    check_new(overwrite, out / RESULT, out / PAGE)
    landmarks = Landmarks.open(folder)
    places = load_queries(queries)
    loaded = encoder_or_descriptors(
        landmarks,
        load_places(queries),  # an .npy file has a row for each of them
        encoder=encoder,
        descriptors=descriptors,
        fingerprint=fingerprint,
        device=device,
        trust_code=trust_code,
    )
    command = shlex.join(["mappable", *sys.argv[1:]])
    result, setup, images = evaluate_map(
        Map(landmarks, loaded),
        places,
        name=name or landmarks.name,
        positive_radius=positive_radius,
        negative_radius=negative_radius,
        protocols=None if protocols is None else [one.strip() for one in protocols.split(",")],
        command=command,
        away=away or (),
    )
    result.save(out)
    page = write_report([result], setup, images.read, out, command=command)
    _warn_of_wide_radius(setup)
    _print(result, page, as_json)
    report_failures(failures_of(page))


def _warn_of_wide_radius(setup: "Setup") -> None:
    from mappable.evaluation.metrics import wide_radius

    if wide_radius(setup.places.positions[setup.references], setup.positive_radius):
        radius = f"{setup.positive_radius:g} {setup.unit}"
        typer.echo(
            f"warning: {radius} is more than a quarter of the extent of the map; compare with"
            " chance",
            err=True,
        )


def _print(result: "Result", page: Path, as_json: bool) -> None:
    """Print a table of methods to locate, a table of rules that accept answers, and the report's
    path.

    If the protocol `localization` was not run, print only the accuracy.
    """
    import numpy as np

    from mappable.evaluation.answers import count
    from mappable.evaluation.protocols.localization import Localization, rules_of

    found, radius, unit = result.get(Localization), result.positive_radius, result.unit
    if found is None:
        print_accuracy([result], page, as_json)
        return
    every = np.arange(len(found.queries))
    ways = {name: count(answers, radius, every) for name, answers in found.methods.items()}
    rules = rules_of(found, radius)
    bound = float((found.bound <= radius).mean())
    if as_json:
        facts = accuracy_json([result], page) | {"chance": found.chance, "upper_bound": 100 * bound}
        facts["ways"] = {name: asdict(one) for name, one in ways.items()}
        facts["rules"] = {name: asdict(one) for name, one in rules.items()}
        typer.echo(json.dumps(facts, indent=2))
        return
    headings = (
        f"within {radius:g} {unit}",
        "median error",
        "confident",
        "confident and correct",
        f"{100 * found.coverage:g} % intervals with the true distance",
    )
    rows = [
        (
            name,
            f"{_of(one.found, one.queries)} ({one.percent:.1f} %)",
            f"{one.median:.1f} {unit}",
            _of(one.confident, one.queries),
            _of(one.right, one.confident),
            _of(one.held, one.intervals),
        )
        for name, one in ways.items()
    ]
    rows += [
        ("upper bound", f"{100 * bound:.1f} %", "", "", "", ""),
        ("chance", f"{found.chance:.1f} %", "", "", "", ""),
    ]
    print_table(("", *headings), rows, numbers=headings)
    kept = ("average precision", "accepted", "accepted but wrong")
    accepting = [
        (
            name,
            f"{one.average_precision:.3f}",
            _of(one.accepted, one.answers),
            _of(one.wrong, one.accepted),
        )
        for name, one in rules.items()
    ]
    print_table(("which answers to accept", *kept), accepting, numbers=kept)
    if found.note:
        typer.echo(f"note: {found.note}")
    typer.echo(f"report: {page}")


def _of(part: int, whole: int) -> str:
    return f"{part:,} of {whole:,}"
