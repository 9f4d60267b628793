"""`mappable demo`: the whole story on a street that it draws itself: train, map, locate, recover, report."""

import shlex
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mappable.arrays import evenly
from mappable.cli.common import end_with
from mappable.cli.output import print_accuracy, print_recovery, print_world
from mappable.errors import BadInputError
from mappable.places.picture import draw_map
from mappable.places.world_record import SHEET

if TYPE_CHECKING:
    from mappable.evaluation.reproduce import PlannedModel, Study
    from mappable.evaluation.result import Result
    from mappable.maps.map import Map

SET = "street-v1-demo"
ROWS = ("off-the-shelf", "triplet", "triplet+huber-ours")
STEPS = 200
SHOWN = 9  # test images whose positions are printed


def demo(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder for everything that the demo makes.")] = Path(
        "demo"
    ),
    every: Annotated[
        int, typer.Option(help="Keep every N-th image of each run, for a quicker look.", metavar="N", min=1)
    ] = 1,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a demo of another version, or with another N, that OUT holds.")
    ] = False,
) -> None:
    """Draw a street in sun, snow, rain and at night, train encoders on it, and show what the paper's idea gains.

    Each step names the command that does it. Stop it whenever you like: the same command goes on from there.
    """
    from mappable.evaluation.report import failures_of
    from mappable.evaluation.reproduce import load_study, plan
    from mappable.evaluation.rows import rows_named
    from mappable.evaluation.sets import PLACES, find_set

    named, street = find_set(SET), out / PLACES
    models = plan(named, rows_named(ROWS), [0], [_steps(every)])
    fewer = f" --every {every}" if every > 1 else ""
    typer.echo("1. Draw a street in nine runs, in all kinds of weather and light (under two minutes on two cores).")
    typer.echo(f"   mappable simulate {SET} {_quoted(street)}{fewer}")
    again = f"mappable reproduce {SET} {_quoted(out)} --rows {','.join(ROWS)}{fewer} --set {_steps(every)}"
    study = load_study(named, None, out, models, every=every, overwrite=overwrite, command=again)
    print_world(street, study.setup.places)
    draw_map(study.setup.places, street / "map.png")
    typer.echo(f"\n   the same places in each condition: {street / SHEET}")
    typer.echo(f"   the map of all runs:               {street / 'map.png'}")
    typer.echo(
        "\n2. VGG-16 with ImageNet weights as it is, and its last block trained by a triplet loss alone and with the\n"
        "   paper's geometric term, each put to all tests (about four minutes)."
    )
    typer.echo(f"   {again}\n")
    results = _results(study, models)
    typer.echo("\n3. A map of the last one, and where images of the test runs are on it.")
    opened = _build_map(study, models[-1], out / "map")
    typer.echo(
        f"   mappable map build {_quoted(street)} {_quoted(out / 'map')} --encoder {_encoder(study, models[-1])}"
    )
    images = _quoted(street / "images/test-night")
    typer.echo(f"   mappable locate {_quoted(out / 'map')} {images} --sequence\n")
    _locate_some(study, models[-1], opened)
    typer.echo("\n4. The way of a test run from feature distances alone, and between ten known positions.\n")
    print_recovery(results[-1])
    typer.echo("\n5. What it all comes to: test images whose nearest landmark, by descriptor, is near.\n")
    page = study.report(results)
    print_accuracy(results, page)
    typer.echo(f"look at it: mappable serve {_quoted(out / 'map')} --study {_quoted(out)}")
    end_with(failures_of(page))


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))


def _encoder(study: "Study", model: "PlannedModel") -> str:
    from mappable.evaluation.reproduce import MODELS

    return _quoted(study.out / MODELS / model.folder)


def _steps(every: int) -> str:
    """Two thirds of what the preset has, which is enough to see; fewer for fewer images."""
    return f"iterations={max(STEPS // every, 1)}"


def _results(study: "Study", models: "list[PlannedModel]") -> "list[Result]":
    """One model after the other; only of the last is the map recovered, for that takes its time."""
    from mappable.evaluation.result import Accuracy
    from mappable.learning.trainer import TrainingStopped

    quicker = replace(study, protocols=[one for one in study.protocols if one.name != "map-recovery"])
    results = []
    try:
        for result in chain(quicker.run(models[:-1]), study.run(models[-1:])):
            found, radius = result.get(Accuracy), result.positive_radius
            if found is not None:
                typer.echo(f"   {result.title}: {found.positive[0]:.1f} % within {radius:g} {result.unit}")
            results.append(result)
    except TrainingStopped as stopped:
        typer.echo(f"{stopped}; the same command goes on from there", err=True)
        raise typer.Exit(130) from None
    if len(results) < len(models):
        raise BadInputError(f"{study.out}: another process is at work there right now; run it again later")
    return results


def _build_map(study: "Study", model: "PlannedModel", folder: Path) -> "Map":
    """The map that was evaluated, of the descriptors that are there already."""
    import numpy as np

    from mappable.evaluation.reproduce import MODELS
    from mappable.evaluation.scoring import landmarks_of
    from mappable.features.descriptors import Described
    from mappable.features.files import ENCODER
    from mappable.maps.build import build_map_of

    encoder, made = study.describe(model)
    rows = np.concatenate([landmarks_of(study.setup), study.setup.calibration])
    built = build_map_of(
        Described(study.setup.places[rows], made[rows], encoder.fingerprint, encoder.about), every=True
    )
    return built.save(folder, study.out / MODELS / model.folder / ENCODER)


def _locate_some(study: "Study", model: "PlannedModel", opened: "Map") -> None:

    from mappable.cli.locate import print_locations
    from mappable.maps.locate import Locator

    queries = study.setup.queries
    some = queries[evenly(len(queries), SHOWN, nearest=True)]
    _, made = study.describe(model)
    places = study.setup.places[some]
    found = Locator(opened).locate(made[some], encoder=made.encoder, images=places.place_id.tolist())
    print_locations(opened, found, places.positions)
