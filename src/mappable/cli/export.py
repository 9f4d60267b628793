"""`mappable export ENCODER OUT.onnx`: an encoder for other programs, and for onnxruntime, in float32 or int8."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from mappable.cli.output import print_taken
from mappable.errors import BadInputError


def export(
    encoder_file: Annotated[
        Path,
        typer.Argument(
            metavar="ENCODER",
            help="The file encoder.safetensors, or a training run's or a map's folder; for --int8 also an .onnx file.",
        ),
    ],
    out: Annotated[Path, typer.Argument(metavar="OUT.onnx", help="The file to write, whose name ends in .onnx.")],
    int8: Annotated[
        bool, typer.Option("--int8", help="Convolutions in int8: quicker on a CPU, and a bit less accurate.")
    ] = False,
    calibrate: Annotated[
        Path | None,
        typer.Option(
            help="For int8: places to measure it on, a folder made by `mappable convert` or `mappable simulate`, or a "
            "table.",
            metavar="PLACES",
        ),
    ] = None,
    images: Annotated[int, typer.Option(help="For int8: images that ranges are measured on.", metavar="N", min=1)] = 64,
    tolerate: Annotated[
        float, typer.Option(help="For int8: percentage points of accuracy that it may lose.", metavar="POINTS", min=0)
    ] = 1.0,
    positive_radius: Annotated[
        float | None, typer.Option(help="For int8: right is whoever is within this (default: the encoder's).")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="OUT.onnx may be there, and gives way.")] = False,
) -> None:
    """Write an encoder as one ONNX file: uint8 images of any number and size in, descriptors of length one out.

    Normalisation is inside. The file is written only if onnxruntime computes from it what torch does. With --int8 it
    is an encoder of its own, with maps of its own, and is written only if it locates held-out images of PLACES nearly
    as well as in float32: both accuracies are printed, and kept in the file.
    """
    from mappable.features.encoder import Encoder
    from mappable.features.onnx_encoder import OnnxEncoder
    from mappable.features.onnx_export import check_file, export_onnx
    from mappable.maps.encoders import find_encoder

    check_file(out)
    if out.exists() and not overwrite:
        raise BadInputError(f"{out}: is there already; choose another file, or overwrite it (--overwrite)")
    if int8 != (calibrate is not None):
        raise BadInputError("--int8 and --calibrate PLACES go together: int8 is measured on your images")
    source = given = find_encoder(encoder_file)
    if given.suffix == ".onnx" and not int8:
        raise BadInputError(f"{given}: is an ONNX file already")
    with TemporaryDirectory(prefix="mappable-") as folder:
        if source.suffix != ".onnx":
            source = Path(folder) / "float32.onnx" if int8 else out
            worst = export_onnx(Encoder.load(given), source)
            typer.echo(f"descriptors differ from torch's by {worst:.1e} at most (length of the difference)")
        if calibrate is not None:
            _quantise(source, out, calibrate, images, tolerate, positive_radius)
    written = OnnxEncoder(out)
    megabytes = out.stat().st_size / 1e6
    typer.echo(f"encoder {written.fingerprint}, {written.precision}, {written.dimensions:,} numbers a descriptor")
    typer.echo(f"{megabytes:,.1f} MB written to {out}")


def _quantise(source: Path, out: Path, table: Path, count: int, tolerate: float, radius: float | None) -> None:
    from mappable.features.onnx_encoder import OnnxEncoder
    from mappable.features.onnx_int8 import export_int8
    from mappable.places.cache import find_packed
    from mappable.places.files import load_places

    places, about = load_places(table), OnnxEncoder(source).about
    print_taken(places, "measuring int8 on", references=places.references(), calibration=places.calibration())
    packed = find_packed(table, places, about.size, about.fit)
    found = export_int8(source, out, places, packed, count=count, tolerate=tolerate, radius=radius)
    within = f"within {found.radius:g} {about.unit or 'm'} of the nearest of {found.landmarks:,} landmarks"
    typer.echo(f"of {found.queries:,} held-out images are {within}, by descriptor:")
    typer.echo(f"{found.float32:.1f} % in float32, {found.int8:.1f} % in int8")
