"""`mappable recover FILE OUT`: positions from distances alone, or from images; `study`: how well that can be done."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer
from typer.core import TyperGroup

from mappable.cli.common import Device, EncoderFile, Seed, packed
from mappable.errors import BadInputError

if TYPE_CHECKING:
    from mappable.arrays import Floats
    from mappable.recovery.ranges import Ranges
    from mappable.recovery.report import Report
    from mappable.recovery.study.study import Summary

POSITIONS, TRAJECTORY, SUMMARY, FIGURE = "positions.csv", "trajectory.txt", "summary.json", "recovery.png"


Out = Annotated[Path, typer.Argument(help=f"Folder for {POSITIONS}, {TRAJECTORY} and {SUMMARY}.")]
Known = Annotated[Path | None, typer.Option(help="Known positions: point,x,y[,z][,sigma].", metavar="CSV")]
Ways = Annotated[
    Path | None,
    typer.Option(help="With known positions: ways in the map's directions, i,j,x,y[,z][,sigma].", metavar="CSV"),
]
Bends = Annotated[
    Path | None,
    typer.Option(
        help="With known positions: changes of direction, point,radians[,sigma], left above 0.", metavar="CSV"
    ),
]
Unordered = Annotated[
    bool, typer.Option("--unordered", help="The points are not the images of one drive in order. Assume no steps.")
]
Steps = Annotated[
    bool,
    typer.Option(
        "--assume-steps",
        help="Assume a usual step where no range joins a point to the next, as `recover --images` does.",
    ),
]
Truth = Annotated[
    Path | None,
    typer.Option(
        help="True positions to score by: x,y[,z] of all points or point,x,y[,z] of some, TUM's (.txt), or places.",
        metavar="FILE",
    ),
]
Dimensions = Annotated[
    int | None, typer.Option(help="2 or 3 (default: those of the known positions, else 2).", min=2, max=3)
]
Method = Annotated[
    str, typer.Option(help="default, geodesic, smacof, sdp, sdp-frobenius, rank-alternation or s-stress.")
]
Radius = Annotated[float | None, typer.Option(help="Use only the pairs within so many metres.")]
Drawn = Annotated[bool, typer.Option("--figure", help=f"Also draw {FIGURE}.")]


class Verbs(TyperGroup):
    """The verb `file` goes without saying, and `--images PATH` is the verb `images`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        args = [word for one in args for word in (one.split("=", 1) if one.startswith("--images=") else [one])]
        if "--images" in args:
            at = args.index("--images")
            args = ["images", *args[at + 1 : at + 2], *args[:at], *args[at + 2 :]]
        named = args and (args[0] in self.commands or args[0] in ("-h", "--help"))
        return super().parse_args(ctx, args if named or not args else ["file", *args])


app = typer.Typer(
    cls=Verbs,
    help="Recover positions from distances: `mappable recover FILE OUT`; or from images and what a map knows of such, "
    "`mappable recover --images PATH OUT --map MAP`; or study how well that can be done. "
    "For the options of the former: `mappable recover file --help` and `mappable recover images --help`.",
    no_args_is_help=True,
    subcommand_metavar="FILE OUT [OPTIONS] | --images PATH OUT --map MAP [OPTIONS] | study [OPTIONS]",
)


@app.command("file")
def from_file(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="Ranges (.csv or .parquet: i,j,metres[,sigma]) or a matrix of squared distances (.npy).",
        ),
    ],
    out: Out,
    anchors: Known = None,
    odometry: Ways = None,
    turns: Bends = None,
    unordered: Unordered = False,
    truth: Truth = None,
    dimensions: Dimensions = None,
    method: Method = "default",
    scale: Annotated[float, typer.Option(help="Of a matrix: square metres for a squared distance of 1.")] = 1.0,
    radius: Radius = None,
    mask: Annotated[
        Path | None, typer.Option(help="Of a matrix: use the pairs that are true in this one.", metavar="NPY")
    ] = None,
    assume_steps: Steps = False,
    figure: Drawn = False,
    seed: Seed = 0,
) -> None:
    """Recover the positions of images from measured distances between some of them.

    Points are numbered from 0 in the order of their images. Without known positions the map has coordinates of its own,
    and what the distances leave open is said; with them it is in theirs, with covariances.
    """
    _recover(
        lambda: Measured(_ranges(file, scale, radius, mask), str(file), {"file": str(file)}),
        out, anchors, odometry, turns, unordered, truth, dimensions, method, radius, assume_steps, figure, seed,
    )  # fmt: skip


@app.command("images")
def from_images(
    path: Annotated[
        Path,
        typer.Argument(metavar="PATH", help="Folder of images, or made by `mappable convert`; positions do not count."),
    ],
    out: Out,
    folder: Annotated[
        Path, typer.Option("--map", help="The map whose calibration makes metres of feature distances.", metavar="MAP")
    ],
    encoder: EncoderFile = None,
    device: Device = "auto",
    anchors: Known = None,
    odometry: Ways = None,
    turns: Bends = None,
    unordered: Unordered = False,
    truth: Truth = None,
    dimensions: Dimensions = None,
    method: Method = "default",
    radius: Radius = None,
    figure: Drawn = False,
    seed: Seed = 0,
) -> None:
    """Recover the positions of images from the feature distances between them, by the calibration of a map.

    Points are the images in the order of their names, or of the rows of a table; all of them must decode. The map need
    not show the same place; its landmarks are not used. Where no range joins an image to the next, a usual step is
    assumed, and the result says so.
    """

    def measure() -> Measured:
        from mappable.maps.encoders import encoder_of
        from mappable.maps.export import seconds_of
        from mappable.maps.map import Map
        from mappable.maps.queries import ranges_of_images
        from mappable.places.unposed import find_images

        opened, places = Map.open(folder), find_images([path])
        loaded = encoder_of(opened, encoder, device)
        ranges = ranges_of_images(opened, loaded, places, packed(path, places, loaded))
        ranges = ranges if radius is None else ranges.where(ranges.metres <= radius)
        facts = {"map": str(folder), "encoder": opened.encoder, "images": places.place_id.tolist()}
        return Measured(ranges, str(path), facts, seconds_of(places))

    _recover(
        measure, out, anchors, odometry, turns, unordered, truth, dimensions, method, radius, True, figure, seed
    )  # fmt: skip


@dataclass(frozen=True)
class Measured:
    """Ranges, what they are called in a figure, what the summary says of them, and the times of the points."""

    ranges: "Ranges"
    name: str
    facts: dict[str, Any]
    seconds: "Floats | None" = None


def _recover(
    measure: Callable[[], Measured],
    out: Path,
    anchors: Path | None,
    odometry: Path | None,
    turns: Path | None,
    unordered: bool,
    truth: Path | None,
    dimensions: int | None,
    method: str,
    radius: float | None,
    assume_steps: bool,
    figure: bool,
    seed: int,
) -> None:
    """What both ways in share."""
    from mappable.files import check_writable
    from mappable.recovery import files
    from mappable.recovery.drive import recover_drive
    from mappable.recovery.report import report
    from mappable.recovery.study.methods import method as find_method
    from mappable.trajectories import write_tum

    find_method(method)  # refuse a wrong name before the work
    if out.exists() and not out.is_dir():
        raise BadInputError(f"{out}: is a file; give a folder to write to")
    measured = measure()
    ranges = measured.ranges
    known = None if anchors is None else files.read_anchors(anchors)
    wanted = dimensions or (2 if known is None else known.positions.shape[1])
    if known is not None and known.positions.shape[1] != wanted:
        raise BadInputError(f"{anchors}: has {known.positions.shape[1]} dimensions, but {wanted} are asked for")
    hints = {
        "--odometry": None if odometry is None else files.read_odometry(odometry),
        "--turns": None if turns is None else files.read_turns(turns),
        "--unordered": (unordered and not assume_steps) or None,
    }
    for option, given in hints.items():
        if known is None and given is not None:
            raise BadInputError(f"{option} needs known positions: give --anchors")
    if turns is not None and unordered:
        raise BadInputError("--turns are along a drive: leave out --unordered")
    true = None if truth is None else _truth(truth, ranges.count)
    if true is not None and true.shape[1] < wanted:
        raise BadInputError(f"{truth}: has {true.shape[1]} dimensions, but {wanted} are asked for")
    true = None if true is None else true[:, :wanted]
    check_writable(out / POSITIONS)

    recovered = recover_drive(
        ranges,
        wanted,
        anchors=known,
        ordered=not unordered,
        assume_steps=assume_steps,
        odometry=hints["--odometry"],  # type: ignore[arg-type]
        turns=hints["--turns"],  # type: ignore[arg-type]
        method=method,
        seed=seed,
        progress=True,
    )
    said = report(ranges, recovered, anchors=known, truth=true, radius=radius)
    _print_report(said)
    files.write_positions(out / POSITIONS, recovered)
    write_tum(out / TRAJECTORY, recovered.positions, measured.seconds)
    files.RECOVERY.write(out / SUMMARY, measured.facts | {"method": method} | said.to_json())
    if figure:
        from mappable.recovery.figure import draw_recovery

        points = None if known is None else known.points
        draw_recovery(out / FIGURE, ranges, recovered, truth=true, anchors=points, title=measured.name)
    typer.echo(f"written to {out}")


@app.command()
def study(
    kind: Annotated[str, typer.Option(help="Routes: any of open, loop and city.", metavar="KIND,KIND")] = "open,loop",
    noise: Annotated[
        str, typer.Option(help="Of the ranges: any of low, mid, high and learned.", metavar="NOISE,NOISE")
    ] = "mid,learned",
    count: Annotated[int, typer.Option(help="Images along a route.", min=3)] = 400,
    length: Annotated[
        float | None, typer.Option(help="Of a route, in metres (default: 672; in a city one metre an image).")
    ] = None,
    seeds: Annotated[int, typer.Option(help="Repetitions.", min=1)] = 10,
    anchors: Annotated[str, typer.Option(help="Numbers of known positions to try as well.", metavar="N,N")] = "10,20",
    methods: Annotated[
        str, typer.Option(help="As of `mappable recover FILE OUT --method`.", metavar="METHOD,METHOD")
    ] = "default,geodesic,smacof",
    same_route: Annotated[
        bool, typer.Option("--same-route", help="Repeat with other images of one route, not with other routes.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="A JSON file for every single result.", metavar="FILE")] = None,
) -> None:
    """Run methods on made-up routes with ranges of a known quality, beside what can be drawn without any ranges.

    `learned` is the noise of a trained encoder; low, mid and high are kinder. A method that does not beat the straight
    line or the circle has not recovered a shape.
    """
    from mappable.files import check_writable
    from mappable.recovery.study.methods import method
    from mappable.recovery.study.simulator import Kind
    from mappable.recovery.study.study import cases, run_study, save_study, summarise

    kinds = _listed(kind)
    for one in kinds:
        if one not in get_args(Kind):
            raise BadInputError(f"there is no route {one!r}; there are {', '.join(get_args(Kind))}")
    known = [_whole(text) for text in _listed(anchors)]
    wanted = cases(
        kinds,  # type: ignore[arg-type]
        _listed(noise),
        count=count,
        seeds=seeds,
        anchors=known,
        length=length,
        same_route=same_route,
    )
    if out is not None:
        check_writable(out)
    rows = run_study(wanted, _listed(methods))
    _print_study(summarise(rows), f"{count:,} images a route")
    for name in _listed(methods):
        if count > method(name).most:
            typer.echo(f"{name} is made for at most {method(name).most} images and was left out")
    if out is not None:
        save_study(rows, out)
        typer.echo(f"written to {out}")


def _ranges(file: Path, scale: float, radius: float | None, mask: Path | None) -> "Ranges":
    from mappable.recovery.files import read_matrix, read_ranges

    if file.suffix == ".npy":
        return read_matrix(file, scale=scale, radius=radius, mask=mask)
    if mask is not None or scale != 1.0:
        raise BadInputError(f"{file}: --scale and --mask are for a matrix in a .npy file, not for ranges")
    ranges = read_ranges(file)
    return ranges if radius is None else ranges.where(ranges.metres <= radius)


def _truth(file: Path, count: int) -> "Floats":
    from mappable.places.unposed import is_table
    from mappable.recovery.files import read_truth

    if not is_table(file):
        return read_truth(file, count)
    from mappable.places.files import load_places

    positions = load_places(file).positions
    if len(positions) != count:
        raise BadInputError(f"{file}: has {len(positions):,} places, but there are {count:,} points")
    return positions


def _listed(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _whole(text: str) -> int:
    if not text.isdecimal():
        raise BadInputError(f"{text!r} is not a number of known positions")
    return int(text)


def _print_report(said: "Report") -> None:
    parts = "1 part" if len(said.parts) == 1 else f"{len(said.parts):,} parts that nothing connects"
    typer.echo(f"{said.points:,} points in {said.dimensions} dimensions, {said.ranges:,} ranges, {parts}")
    if said.known:
        typer.echo(f"{said.known:,} position{' was' if said.known == 1 else 's were'} known")
    if said.assumed:
        typer.echo(f"{said.assumed:,} step{' was' if said.assumed == 1 else 's were'} assumed")
    if said.thrown_out:
        typer.echo(f"{said.thrown_out:,} range{' was' if said.thrown_out == 1 else 's were'} thrown out as false")
    if said.noise is not None:
        typer.echo(f"noise: {said.noise:.2f} times the stated sigma")
    if said.undetermined:
        typer.echo("undetermined:")
    for sentence in said.undetermined:
        typer.echo(f"  - {sentence}")
    if said.nearness is not None:
        typer.echo(str(said.nearness))
    if said.scores:
        typer.echo(f"{said.scored:,} points scored; below the line is what can be drawn without any ranges")
        width = max(map(len, said.scores)) + 2
        for name, one in said.scores.items():
            if name == "point":
                typer.echo("  " + "-" * (width + 60))
            typer.echo(f"  {name:<{width}}{one}")


def _print_study(rows: "list[Summary]", what: str) -> None:
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table

    from mappable.cli.output import WIDE

    console = Console(width=WIDE, highlight=False, markup=False, emoji=False)
    numbers = ("median %", "from", "to", "mean ± std", "rigid %", "of gyration %", "CPU s")
    title = f"{what}: error as a percentage of the path, medians of {max(row.repetitions for row in rows)}"
    table = Table(title=title, title_justify="left", box=SIMPLE, pad_edge=False)
    for heading in ("route", "noise", "known", "method"):
        table.add_column(heading, no_wrap=True)
    for heading in numbers:
        table.add_column(heading, justify="right", no_wrap=True)
    before: tuple[str, str, int] | None = None
    for row in rows:
        group = (row.kind, row.noise, row.anchors)
        if before not in (None, group):
            table.add_section()
        shown = ["", "", ""] if group == before else [row.kind, row.noise, str(row.anchors or "")]
        before = group
        values = (row.similarity, row.lowest, row.highest)
        table.add_row(
            *shown, row.method, *(f"{value:.2f}" for value in values), f"{row.mean:.2f} ± {row.deviation:.2f}",
            f"{row.rigid:.2f}", f"{row.of_gyration:.1f}", f"{row.seconds:.2f}" if row.seconds else "",
        )  # fmt: skip
    console.print(table)
    console.print("known positions are never aligned; all others after the best alignment, with scale and mirror")
