"""`mappable export ENCODER OUT.onnx`: an encoder for other programs, and for onnxruntime, in float32 or int8."""

from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from mappable.cli.common import AsJson, Overwrite, check_new, print_json
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
    out: Annotated[Path, typer.Argument(metavar="OUT.onnx", help="File to write; its name ends in .onnx.")],
    int8: Annotated[
        bool, typer.Option("--int8", help="Compute convolutions in int8: faster on a CPU, slightly less accurate.")
    ] = False,
    calibrate: Annotated[
        Path | None,
        typer.Option(
            help="For int8: places to measure it on. A folder made by `mappable convert` or `mappable simulate`, or a "
            "table.",
            metavar="PLACES",
        ),
    ] = None,
    images: Annotated[int, typer.Option(help="For int8: images to measure value ranges on.", metavar="N", min=1)] = 64,
    tolerate: Annotated[
        float, typer.Option(help="For int8: largest loss of accuracy, in percentage points.", metavar="POINTS", min=0)
    ] = 1.0,
    positive_radius: Annotated[
        float | None,
        typer.Option(
            help="For int8: distance within which a match counts as correct (default: the encoder's positive radius).",
            metavar="METRES",
        ),
    ] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
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
    check_new(overwrite, out)
    if int8 != (calibrate is not None):
        raise BadInputError("--int8 and --calibrate PLACES go together: int8 is measured on your images")
    source = given = find_encoder(encoder_file)
    if given.suffix == ".onnx" and not int8:
        raise BadInputError(f"{given}: is an ONNX file already")
    facts: dict[str, Any] = {}
    with TemporaryDirectory(prefix="mappable-") as folder:
        if source.suffix != ".onnx":
            source = Path(folder) / "float32.onnx" if int8 else out
            facts["difference"] = export_onnx(Encoder.load(given), source)
        if calibrate is not None:
            facts["int8"] = _quantise(source, out, calibrate, images, tolerate, positive_radius)
    written = OnnxEncoder(out)
    facts |= {"encoder": written.fingerprint, "precision": written.precision, "dimensions": written.dimensions}
    facts |= {"file": str(out), "bytes": out.stat().st_size}
    if as_json:
        print_json(facts)
    else:
        _print(facts, written.about.unit or "m")


def _quantise(
    source: Path, out: Path, table: Path, count: int, tolerate: float, radius: float | None
) -> dict[str, Any]:
    from mappable.features.onnx_encoder import OnnxEncoder
    from mappable.features.onnx_int8 import export_int8
    from mappable.places.cache import find_packed
    from mappable.places.files import load_places

    places, about = load_places(table), OnnxEncoder(source).about
    print_taken(places, "measuring int8 on", references=places.references(), calibration=places.calibration())
    packed = find_packed(table, places, about.size, about.fit)
    return asdict(export_int8(source, out, places, packed, count=count, tolerate=tolerate, radius=radius))


def _print(facts: dict[str, Any], unit: str) -> None:
    if "difference" in facts:
        typer.echo(f"descriptors differ from torch's by {facts['difference']:.1e} at most (length of the difference)")
    if found := facts.get("int8"):
        within = f"within {found['radius']:g} {unit} of the nearest of {found['landmarks']:,} landmarks"
        typer.echo(f"of {found['queries']:,} held-out images are {within}, by descriptor:")
        typer.echo(f"{found['float32']:.1f} % in float32, {found['int8']:.1f} % in int8")
    numbers = f"{facts['dimensions']:,} numbers per descriptor"
    typer.echo(f"encoder {facts['encoder']}, {facts['precision']}, {numbers}")
    typer.echo(f"{facts['bytes'] / 1e6:,.1f} MB written to {facts['file']}")
