"""`mappable reproduce SET [OUT]`: reproduce the paper's tables and figures, from training to the report."""

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from mappable.cli.common import AsJson, Device, report_failures
from mappable.cli.output import print_accuracy
from mappable.errors import BadInputError


def reproduce(
    name: Annotated[str, typer.Argument(metavar="SET", help="Set to reproduce: {sets}.")],
    out: Annotated[
        Path | None,
        typer.Argument(
            metavar="OUT",
            help="Folder for models, results and report (default: results/SET).",
            show_default=False,
        ),
    ] = None,
    root: Annotated[
        Path | None,
        typer.Option(
            "--images",
            help="Folder of the downloaded images; simulated sets do not need it.",
            metavar="FOLDER",
        ),
    ] = None,
    rows: Annotated[
        str,
        typer.Option(
            help=(
                "Rows of the paper's table to train: {rows}. table1 means all eleven rows with the"
                " paper's γ and F². "
                "ours means the four combinations and the triplet alone, with the values of the"
                " preset."
            ),
            metavar="ROW,ROW",
        ),
    ] = "table1",
    seeds: Annotated[
        str,
        typer.Option(help="Seeds of training; each seed trains one model per row.", metavar="N,N"),
    ] = "0",
    protocols: Annotated[
        str | None,
        typer.Option(
            help="Run only these protocols: {protocols} (default: all).", metavar="NAME,NAME"
        ),
    ] = None,
    settings: Annotated[
        Path | None,
        typer.Option(
            help="YAML file with settings of all rows, for a set without a preset.", metavar="FILE"
        ),
    ] = None,
    values: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="Change a setting for all rows; may be repeated.", metavar="KEY=VALUE"
        ),
    ] = None,
    as_printed: Annotated[
        Path | None,
        typer.Option(
            "--as-printed",
            help=(
                "Start as the paper does: weights vgg16-caffe, clusters of 30,000 images of"
                " Pittsburgh 250k, which "
                "`mappable convert pittsburgh` wrote. The loss stays that of the authors' code,"
                " with residuals divided by "
                "r1², not the printed sum in m². Only for oxford and cold."
            ),
            metavar="PLACES",
        ),
    ] = None,
    choose: Annotated[
        bool,
        typer.Option(
            "--choose",
            help="For choosing settings: test on images reserved for this, not on test images.",
        ),
    ] = False,
    every: Annotated[
        int,
        typer.Option(
            help="Keep every N-th image of each run of a simulated set, for a quicker result.",
            metavar="N",
            min=1,
        ),
    ] = 1,
    device: Device = "auto",
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite",
            help="Replace models in OUT that were trained with other settings or images.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Train and evaluate the models of the paper's table I by the paper's protocols, and write a
    report.

    You may stop at any time: the same command continues from there. It recomputes only what has
    changed, and never reuses results of other settings or other images.

    If a protocol, section or figure fails, the report and standard error name it, and the exit code
    is 3. All other results are valid, and the same command tries the failed part again.

    To train in parallel, start the command several times, on one machine or on several that share a
    disk. The processes divide the models among themselves.
    """
    from mappable.evaluation.as_printed import check_weights, printed_settings
    from mappable.evaluation.report import failures_of
    from mappable.evaluation.reproduce import load_study, plan
    from mappable.evaluation.result import Accuracy
    from mappable.evaluation.rows import rows_named
    from mappable.evaluation.sets import find_set
    from mappable.learning.trainer import TrainingStopped

    named, home = find_set(name), out or Path("results") / (f"{name}-choosing" if choose else name)
    if settings is not None:
        named = replace(named, settings=settings)
    elif named.preset is None:
        raise BadInputError(
            f"{name} has no preset; add --settings FILE, such as studies/{name}/{name}.yaml"
        )
    changes = values or []
    if as_printed is not None:
        changes = [*printed_settings(name, as_printed, changes), *changes]
    models = plan(named, rows_named(_names(rows)), _numbers(seeds), changes)
    if as_printed is not None and models:
        check_weights(models[0].settings)
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
        as_printed=as_printed is not None,
        command=shlex.join(["mappable", *sys.argv[1:]]),
        away=named.away,
    )
    try:
        for number, result in enumerate(study.run(models), 1):
            found = ""
            if accuracy := result.get(Accuracy):
                found = (
                    f": {accuracy.positive[0]:.1f} % within {result.positive_radius:g}"
                    f" {result.unit}"
                )
            typer.echo(
                f"{number} of {len(models)}: {result.title}, seed {result.seed}{found}", err=True
            )
    except TrainingStopped as stopped:
        typer.echo(f"{stopped}; the same command continues from there", err=True)
        raise typer.Exit(130) from None
    results = study.results(models)
    if len(results) < len(models):
        finished = (
            f"{len(results)} of {len(models)} models are finished with these settings and images"
        )
        typer.echo(f"{finished}; another process is working on the rest", err=True)
    page = study.report(results) if results else None
    if page is not None or as_json:
        print_accuracy(results, page, as_json)
    if page is not None:
        report_failures(failures_of(page))


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _numbers(text: str) -> list[int]:
    try:
        numbers = [int(name) for name in _names(text)]
    except ValueError:
        raise BadInputError(f"--seeds is {text!r}, expected whole numbers such as 0,1,2") from None
    if any(number < 0 for number in numbers) or len(set(numbers)) < len(numbers):
        raise BadInputError(
            f"--seeds is {text!r}, expected different numbers of 0 or more, such as 0,1,2"
        )
    return numbers
