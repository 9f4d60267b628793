"""`mappable start IMAGES`: from images or a video to a served map, step by step."""

import hashlib
import json
import shlex
import shutil
import sys
import time
from contextlib import nullcontext, redirect_stdout
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mappable.cli.common import AsJson, Device, Overwrite, print_json
from mappable.errors import BadInputError
from mappable.files import write_atomically
from mappable.progress import one_bar

if TYPE_CHECKING:
    from mappable.localization.estimate import Estimate
    from mappable.places.table import Places

PLACES, MODEL, DESCRIPTORS, MAP, ESTIMATE = "places", "model", "descriptors", "map", "estimate.json"
# Say which images and positions were read, and which the model is for.
READ, USED = "read.txt", "used.txt"
UNFINISHED = "unfinished "  # begins USED until the map is made
WARNINGS_SHOWN = 5


def start(
    images: Annotated[
        Path,
        typer.Argument(
            metavar="IMAGES", help="Folder of images with positions, a video, or a table of images."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Argument(
            metavar="OUT",
            help="Folder for everything that is made (default: the name of IMAGES, -map).",
        ),
    ] = None,
    reader: Annotated[
        str | None,
        typer.Option(
            help=(
                "Reader of `mappable convert` (default: the first one that `convert auto`"
                " proposes)."
            )
        ),
    ] = None,
    options: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            help="Option of the reader, such as unit=frames; may be repeated.",
            metavar="KEY=VALUE",
        ),
    ] = None,
    minutes: Annotated[
        float,
        typer.Option(
            help="Deadline of the training, in minutes; other steps take their own time.", min=0.1
        ),
    ] = 4.0,
    serve: Annotated[
        bool, typer.Option("--serve/--no-serve", help="Serve the map at the end, until Ctrl-C.")
    ] = True,
    port: Annotated[
        int, typer.Option(help="Port to listen on; 0 chooses a free port.", min=0, max=65535)
    ] = 8000,
    device: Device = "auto",
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Make a map of your images in one command: convert, check, train, build, estimate, serve.

    Each step prints the command that does the same alone. You may stop at any time: the same
    command continues. At the end, it prints what to expect of the map on another visit, and what
    would improve it most.
    """
    from mappable.readers.registry import read_places

    given = _options(options or [])
    name, remark = _reader(images, reader, given)
    given = _typed(name, given)
    out = Path(f"{images.resolve().stem}-map") if out is None else out
    if out.is_file() or out.resolve() == images.resolve():
        raise BadInputError(
            f"{out}: not a folder of its own; give another folder OUT for everything that is made"
        )
    read = read_places(name, images, **given)
    with (
        redirect_stdout(sys.stderr) if as_json else nullcontext(),
        one_bar("start", _stages(read, device)),
    ):
        places, result = _make(
            read,
            images,
            out,
            name,
            given,
            remark,
            minutes=minutes,
            device=device,
            overwrite=overwrite,
        )
    if as_json:
        print_json(result)
    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        _step(7, "Serve the map", f"serve {_quoted(out / MAP)} --images {_quoted(places.root)}")
        if serve:
            from mappable.cli.serve import serve as run_server

            run_server(out / MAP, images=[places.root], port=port, device=device)


def _stages(read: "Places", device: str) -> list[tuple[str, float]]:
    """The bars of the command, and the seconds that each usually takes."""
    from mappable.cli.train import IMAGE_SECONDS, plan_of, stages_of

    plan = plan_of(read, [], device=device)
    once = IMAGE_SECONDS * len(read)
    return [
        *stages_of(len(read), plan.off_the_shelf, plan.trained),
        ("describing images", once),
        ("locating each visit", once),
    ]


def _make(
    read: "Places",
    images: Path,
    out: Path,
    reader: str,
    given: dict[str, Any],
    remark: str,
    *,
    minutes: float,
    device: str,
    overwrite: bool,
) -> "tuple[Places, dict[str, Any]]":
    """Do all steps but the last; return the table, and what was made and found."""
    from mappable.cli.encoders import best_sentence
    from mappable.cli.estimate import describe_places, estimate_of, print_estimate
    from mappable.cli.map_build import save_map
    from mappable.cli.output import print_chosen, print_plan
    from mappable.cli.places import findings
    from mappable.cli.train import plan_of, run_plan, stoppable
    from mappable.features.activations import FOLDER as ACTIVATIONS
    from mappable.learning.auto import choose_size
    from mappable.learning.folder import OtherRunError
    from mappable.localization.advice import advise
    from mappable.places.files import TABLE, load_places
    from mappable.places.survey import survey
    from mappable.readers.conversion import convert

    began = time.perf_counter()
    table, model, folder = out / PLACES, out / MODEL, out / MAP
    size = choose_size(read)
    extra = " ".join(
        f"--{key.replace('_', '-')} {shlex.quote(str(value))}" for key, value in given.items()
    )
    converting = (
        f"convert {reader} {_quoted(images)} {_quoted(table)} --on-bad-image drop --size"
        f" {size[0]}x{size[1]}"
    )
    _step(1, "Convert the images", f"{converting} {extra}")
    typer.echo(remark)
    if not overwrite and (table / TABLE).is_file() and _text(out / READ) == _identity(read):
        places = load_places(table)  # the user may have mended it
    else:
        places = convert(
            reader, images, table, options=given, size=size, on_bad="drop", overwrite=overwrite
        )
        _remember(_identity(read), out / READ)
    count = len(places.sequences())
    typer.echo(f"{len(places):,} images on {count:,} visit{'s' * (count != 1)}")

    _step(2, "Check the images", f"places check {_quoted(table)}")
    warnings = [note for note in findings(places, table) if note.warning]
    for note in warnings[:WARNINGS_SHOWN]:
        typer.echo("\n".join([f"warning: {note}", *note.lines(3)[1:]]))
    if not warnings:
        typer.echo("nothing to mend")

    _step(
        3,
        "Choose and train the encoder",
        f"train {_quoted(table)} {_quoted(model)} --minutes {minutes:g}",
    )
    known, before = _identity(places), _text(out / USED)
    unfinished, finished = before == UNFINISHED + known, before == known and not overwrite
    # The model is for other images.
    overwrite = overwrite or (bool(before) and not unfinished and not finished)
    _remember(UNFINISHED + known, out / USED)
    plan = plan_of(places, [], device=device)
    print_plan(plan)
    typer.echo(best_sentence())
    with stoppable():
        try:
            chosen = run_plan(
                table, places, plan, model, minutes=minutes, device=device, overwrite=overwrite
            )
        except OtherRunError:
            if not unfinished:
                raise
            # The run was killed while it replaced the model.
            chosen = run_plan(
                table, places, plan, model, minutes=minutes, device=device, overwrite=True
            )
    print_chosen(chosen, model)

    _step(
        4,
        "Describe all images",
        f"embed {_quoted(model)} {_quoted(table)} {_quoted(out / DESCRIPTORS)}",
    )
    described = describe_places(model, table, out / DESCRIPTORS, places, device)
    building = f"map build {_quoted(table)} {_quoted(folder)} --encoder {_quoted(model)}"
    _step(5, "Build the map", building)
    anew = save_map(described, folder, model, overwrite=not finished)
    _step(6, "Estimate what it will do", f"{building} --estimate --overwrite")
    found = None if anew else _read_estimate(out / ESTIMATE)
    try:
        found = found or estimate_of(described, model)
        print_estimate(found)
    except BadInputError as error:
        typer.echo(f"no estimate: {error}")
    advice = advise(found, survey(places), why_not=plan.why_not, warnings=len(warnings))
    typer.echo("\nwhat would improve it most:")
    for number, sentence in enumerate(advice, 1):
        typer.echo(f"  {number}. {sentence}")
    estimate = None if found is None else asdict(found)
    text = json.dumps(estimate, indent=2).encode()
    write_atomically(out / ESTIMATE, lambda stream: stream.write(text))
    _remember(known, out / USED)
    # 0.7 MB per image, which only training needs.
    shutil.rmtree(table / ACTIVATIONS, ignore_errors=True)
    typer.echo(f"\nmade in {(time.perf_counter() - began) / 60:.1f} minutes: {folder}")
    return places, {
        "map": str(folder),
        "encoder": asdict(chosen),
        "estimate": estimate,
        "advice": advice,
    }


def _text(record: Path) -> str:
    """What an earlier run remembered in the file `record`; "" if nothing."""
    try:
        return record.read_text("utf-8")
    except (OSError, ValueError):
        return ""


def _remember(text: str, record: Path) -> None:
    write_atomically(record, lambda stream: stream.write(text.encode()))


def _identity(places: "Places") -> str:
    """A hash of paths, sequences, splits and positions."""
    columns = (places.path, places.sequence, places.split, places.positions)
    return hashlib.sha256(json.dumps([column.tolist() for column in columns]).encode()).hexdigest()


def _read_estimate(file: Path) -> "Estimate | None":
    """The estimate of an earlier run; None if there is none, or if it cannot be read."""
    from mappable.localization.estimate import Estimate

    try:
        return Estimate.from_json(json.loads(file.read_text("utf-8")))
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _reader(images: Path, wanted: str | None, given: dict[str, str]) -> tuple[str, str]:
    """The name of the reader, and a remark about the choice."""
    from mappable.readers.registry import propose

    if wanted is not None:
        return wanted, f"reading with {wanted}, as you say"
    found = propose(images, **given)
    others = ", ".join(one.reader for one in found[1:])
    more = f"; {others} would fit too: choose with --reader" if others else ""
    return found[0].reader, f"reading with {found[0].reader}, because of {found[0].evidence}{more}"


def _options(given: list[str]) -> dict[str, str]:
    pairs = [one.partition("=") for one in given]
    wrong = [
        one for one, (key, equals, _) in zip(given, pairs, strict=True) if not key or not equals
    ]
    if wrong:
        raise BadInputError(f"--option {wrong[0]!r}: expected KEY=VALUE, such as unit=frames")
    return {key.replace("-", "_"): value for key, _, value in pairs}


def _typed(reader: str, given: dict[str, str]) -> dict[str, Any]:
    """The options of the reader as numbers or texts, as it expects them."""
    from mappable.readers.registry import find_reader

    kinds = {option.name: str(option.type) for option in find_reader(reader).options}
    typed: dict[str, Any] = {}
    for key, value in given.items():
        try:
            typed[key] = float(value) if "float" in kinds.get(key, "") else value
        except ValueError:
            raise BadInputError(f"--option {key}={value}: expected a number") from None
    return typed


def _step(number: int, what: str, command: str) -> None:
    typer.echo(f"\n{number}. {what}\n   mappable {command.strip()}")


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))
