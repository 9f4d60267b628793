"""`mappable reproduce SET [OUT]`: the paper's tables and figures, from training to the report."""

import math
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from mappable.cli.common import AsJson, Device, end_with
from mappable.cli.output import print_accuracy
from mappable.errors import BadInputError


def reproduce(
    name: Annotated[str, typer.Argument(metavar="SET", help="Set to reproduce: {sets}.")],
    out: Annotated[
        Path | None,
        typer.Argument(
            metavar="OUT", help="Folder for models, results and report (default: results/SET).", show_default=False
        ),
    ] = None,
    root: Annotated[
        Path | None,
        typer.Option(
            "--images", help="Folder of the images as downloaded; the simulated sets need none.", metavar="FOLDER"
        ),
    ] = None,
    rows: Annotated[
        str,
        typer.Option(
            help="Rows of the paper's table to train: {rows}. table1 is all eleven with the paper's γ and F²; "
            "ours is the four combinations and the triplet alone, as the preset has them.",
            metavar="ROW,ROW",
        ),
    ] = "table1",
    seeds: Annotated[str, typer.Option(help="Seeds of training, one model each.", metavar="N,N")] = "0",
    protocols: Annotated[
        str | None, typer.Option(help="Run only these protocols: {protocols} (default: all).", metavar="NAME,NAME")
    ] = None,
    values: Annotated[
        list[str] | None,
        typer.Option("--set", help="Set a setting for all rows; may be repeated.", metavar="KEY=VALUE"),
    ] = None,
    variations: Annotated[
        list[str] | None,
        typer.Option(
            "--vary",
            help="Also train each row with other values of one setting; may be repeated.",
            metavar="KEY=VALUE,VALUE",
        ),
    ] = None,
    as_printed: Annotated[
        bool,
        typer.Option(
            "--as-printed",
            help="Start as the paper does (oxford, cold): weights vgg16-caffe, clusters of 30,000 Pittsburgh images.",
        ),
    ] = False,
    cluster_images: Annotated[
        Path | None,
        typer.Option(
            help="Converted Pittsburgh 250k, for --as-printed (see: mappable convert pittsburgh).", metavar="PLACES"
        ),
    ] = None,
    choose: Annotated[
        bool,
        typer.Option("--choose", help="Choose settings: test on images kept for that purpose, and use no test image."),
    ] = False,
    minutes: Annotated[
        float,
        typer.Option(
            help="Start no model that might end later than this; the same command goes on.", metavar="MINUTES", min=0.0
        ),
    ] = math.inf,
    every: Annotated[
        int, typer.Option(help="Keep every N-th image of each run of a simulated set, for a quicker look.", min=1)
    ] = 1,
    device: Device = "auto",
    report_only: Annotated[
        bool, typer.Option("--report-only", help="Train nothing; report on the finished models.")
    ] = False,
    lean: Annotated[
        bool, typer.Option("--lean", help="Delete the descriptors of each model once it is scored; they are large.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace models made with other settings or images.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Train the models of the paper's table I on a set, run the paper's evaluation on them, and write a report.

    Stop it whenever you like: the same command goes on from there. What has not changed is not computed again, and what
    was made with other settings or of other images is never taken for this.

    A protocol, section or figure that fails is named in the report and on standard error, and the exit code is 3; all
    else stands, and the same command tries it again.

    Start it several times at once, on a machine or on several with one disk, and they share the models.
    """
    from mappable.evaluation.as_printed import check_weights, printed_settings
    from mappable.evaluation.report import failures_of
    from mappable.evaluation.reproduce import known_results, load_study, plan, vary
    from mappable.evaluation.result import Accuracy
    from mappable.evaluation.rows import rows_named
    from mappable.evaluation.sets import find_set
    from mappable.learning.trainer import TrainingStopped

    named, home = find_set(name), out or Path("results") / (f"{name}-choosing" if choose else name)
    changes = values or []
    if as_printed:
        changes = [*printed_settings(name, cluster_images, [*changes, *(variations or ())]), *changes]
    elif cluster_images is not None:
        raise BadInputError("--cluster-images needs --as-printed; without it, give --set init_source=PLACES")
    models = plan(named, vary(rows_named(_names(rows)), variations or ()), _numbers(seeds), changes)
    if as_printed and models and not report_only:
        check_weights(models[0].settings)
    command = shlex.join(["mappable", *(word for word in sys.argv[1:] if word != "--report-only")])
    study = load_study(
        named,
        root,
        home,
        models,
        protocols=None if protocols is None else _names(protocols),
        every=every,
        choose=choose,
        device=device,
        overwrite=overwrite,
        lean=lean,
        as_printed=as_printed,
        command=command,
    )
    if not report_only:
        try:
            for number, result in enumerate(study.run(models, 60 * minutes), 1):
                found = ""
                if accuracy := result.get(Accuracy):
                    found = f": {accuracy.positive[0]:.1f} % within {result.positive_radius:g} {result.unit}"
                typer.echo(f"{number} of {len(models)}: {result.title}, seed {result.seed}{found}", err=True)
        except TrainingStopped as stopped:
            typer.echo(f"{stopped}; the same command goes on from there", err=True)
            raise typer.Exit(130) from None
    if report_only:
        results = known_results(study, models)
        page: Path | None = study.report(results)
    else:
        results, page = study.report_on(models)
    if len(results) < len(models):
        others = "another process has some in hand, or " if not report_only and minutes == math.inf else ""
        typer.echo(
            f"{len(results)} of {len(models)} models are done; {others}the same command goes on from there", err=True
        )
    if page is not None or as_json:
        print_accuracy(results, page, as_json)
    if page is not None:
        end_with(failures_of(page))


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _numbers(text: str) -> list[int]:
    try:
        numbers = [int(name) for name in _names(text)]
    except ValueError:
        raise BadInputError(f"--seeds is {text!r}, but must be whole numbers, such as 0,1,2") from None
    if any(number < 0 for number in numbers) or len(set(numbers)) < len(numbers):
        raise BadInputError(f"--seeds is {text!r}, but must be different numbers, none below 0")
    return numbers
