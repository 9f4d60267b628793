"""`mappable demo`: all steps on a simulated street: draw, train, map, locate, report."""

import shlex
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mappable.cli.common import report_failures
from mappable.cli.output import print_accuracy, print_world
from mappable.errors import BadInputError

if TYPE_CHECKING:
    from mappable.evaluation.reproduce import PlannedModel, Study
    from mappable.evaluation.result import Result

SET = "street-v1-brief"
ROWS = ("off-the-shelf", "triplet", "triplet+huber-ours")
PROTOCOLS = ("table1", "curves", "proportionality", "qualitative")
TRAINING_STEPS = 200  # with all images; two thirds of the preset's iterations
DRIVE = "test-night"  # located on the map; no training image shows a dry night
PRINTED_IMAGES = 9  # images of this drive whose positions are printed


def demo(
    out: Annotated[
        Path, typer.Argument(metavar="OUT", help="Folder for everything that the demo writes.")
    ] = Path("demo"),
    every: Annotated[
        int,
        typer.Option(
            help="Keep every N-th image of each run, for a quicker demo.", metavar="N", min=1
        ),
    ] = 1,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite", help="Replace a demo in OUT of another version, or with another --every."
        ),
    ] = False,
) -> None:
    """Draw a street in different weather and light, train encoders on it, and show what the paper's
    method gains.

    Each step prints the command that does the same. You may stop at any time: the same command
    continues from there.
    """
    from mappable.evaluation.report import failures_of
    from mappable.evaluation.reproduce import MODELS, load_study, plan
    from mappable.evaluation.rows import rows_named
    from mappable.evaluation.sets import PLACES, find_set
    from mappable.features.weights import fetch_weights
    from mappable.files import check_writable
    from mappable.places.picture import draw_map
    from mappable.places.world_record import SHEET
    from mappable.worlds import find_world

    find_world(SET)  # before anything else, because the worlds are another package
    named, street = find_set(SET), out / PLACES
    check_writable(street / "map.png")  # before the weights are fetched
    models = plan(named, rows_named(ROWS), [0], [_steps(every)])
    typer.echo(
        "1. Draw nine runs along a street, in sun, snow, rain and at night (under a minute on two"
        " cores)."
    )
    fewer = f" --every {every}" if every > 1 else ""
    typer.echo(f"   mappable simulate {SET} {_quoted(street)}{fewer}")
    again = (
        f"mappable reproduce {SET} {_quoted(out)} --rows {','.join(ROWS)}{fewer} --set"
        f" {_steps(every)}"
    )
    again += f" --protocols {','.join(PROTOCOLS)}"
    with ThreadPoolExecutor(1) as background:
        weights = background.submit(fetch_weights, str(models[0].settings.weights))
        study = load_study(
            named,
            None,
            out,
            models,
            protocols=PROTOCOLS,
            every=every,
            overwrite=overwrite,
            command=again,
        )
        print_world(street, study.setup.places)
        draw_map(study.setup.places, street / "map.png")
        weights.result()
    typer.echo(f"\n   the same places in each condition: {street / SHEET}")
    typer.echo(f"   the map of all runs:               {street / 'map.png'}")
    typer.echo(
        "\n2. Evaluate three encoders (two minutes). The first is VGG-16 with ImageNet weights,"
        " untrained.\n   A triplet loss trains the last block of the second; the third adds the"
        " paper's geometric term."
    )
    typer.echo(f"   {again}\n")
    results = _results(study, models)
    typer.echo(
        "\n3. Build a map with the last encoder, and locate the drive at night on it (20 seconds)."
    )
    folder, encoder = _quoted(out / "map"), out / MODELS / models[-1].folder
    typer.echo(f"   mappable map build {_quoted(street)} {folder} --encoder {_quoted(encoder)}")
    typer.echo(f"   mappable locate {folder} {_quoted(street / 'images' / DRIVE)} --sequence\n")
    _locate_drive(study, encoder, out / "map")
    typer.echo(
        "\n4. Report the share of test images whose nearest landmark by descriptor is nearby (five"
        " seconds).\n"
    )
    page = study.report(results)
    print_accuracy(results, page)
    score = f"mappable evaluate {folder} {_quoted(street)} {_quoted(out / 'evaluation')}"
    typer.echo(f"score the map, also its intervals: {score}")
    typer.echo(f"view it in a browser: mappable serve {folder} --images {_quoted(street)}")
    report_failures(failures_of(page))


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))


def _steps(every: int) -> str:
    """The setting of the training steps: enough to show the effect, and fewer for fewer images."""
    return f"iterations={max(TRAINING_STEPS // every, 1)}"


def _results(study: "Study", models: "list[PlannedModel]") -> "list[Result]":
    """Train and score one model after the other."""
    from mappable.evaluation.result import Accuracy
    from mappable.learning.trainer import TrainingStopped

    results = []
    try:
        for result in study.run(models):
            accuracy, radius = result.get(Accuracy), result.positive_radius
            if accuracy is not None:
                share = f"{accuracy.positive[0]:.1f} % within {radius:g} {result.unit}"
                typer.echo(f"   {result.title}: {share}")
            results.append(result)
    except TrainingStopped as stopped:
        typer.echo(f"{stopped}; the same command continues from there", err=True)
        raise typer.Exit(130) from None
    if len(results) < len(models):
        problem = f"{study.out}: another process is using this folder"
        raise BadInputError(f"{problem}; run the command again later")
    return results


def _locate_drive(study: "Study", encoder: Path, folder: Path) -> None:
    """Build the map, locate the drive at night on it, and print some of its images."""
    from mappable.arrays import evenly
    from mappable.cli.locate import print_locations
    from mappable.localization.build import build_map

    places = study.setup.places
    demo_map = build_map(places, study.images, encoder=encoder).save(folder)
    drive = places.where(sequence=DRIVE)
    locations = demo_map.locate_drive(drive)
    rows = evenly(len(drive), PRINTED_IMAGES, nearest=True)
    print_locations(demo_map.landmarks, [locations[row] for row in rows], drive.positions[rows])
