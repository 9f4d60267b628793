"""`mappable export ENCODER OUT.onnx`: write an encoder for onnxruntime and other programs, in float32 or int8."""

from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from mappable.cli.common import AsJson, Overwrite, check_new
from mappable.cli.output import print_record, print_used_images
from mappable.errors import BadInputError


def export(
    encoder_file: Annotated[
        str,
        typer.Argument(
            metavar="ENCODER",
            help=(
                "File encoder.safetensors, or the folder of a training run or a map; with --int8"
                " also an .onnx file."
            ),
        ),
    ],
    out: Annotated[
        Path, typer.Argument(metavar="OUT.onnx", help="File to write, with the suffix .onnx.")
    ],
    int8: Annotated[
        Path | None,
        typer.Option(
            help=(
                "Compute convolutions in int8: faster on a CPU, slightly less accurate. The images"
                " of PLACES measure "
                "value ranges and accuracy. A folder written by `mappable convert` or `mappable"
                " simulate`, or a table."
            ),
            metavar="PLACES",
        ),
    ] = None,
    tolerate: Annotated[
        float,
        typer.Option(
            help="With --int8: largest loss of accuracy, in percentage points.",
            metavar="POINTS",
            min=0,
        ),
    ] = 1.0,
    positive_radius: Annotated[
        float | None,
        typer.Option(
            help="With --int8: distance within which a match counts as correct "
            "(default: the encoder's positive radius).",
            metavar="METRES",
        ),
    ] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Write an encoder as one ONNX file. Input: uint8 images of any number and size. Output:
    unit-length descriptors.

    The file contains the normalization of the images. It is written only if onnxruntime computes
    the same descriptors as torch.

    With --int8 the result is a separate encoder, which needs its own maps. It is written only if it
    locates held-out images of PLACES nearly as well as float32 does. The command prints both
    accuracies and stores them in the file.
    """
    from mappable.features.encoder import Encoder
    from mappable.features.onnx_encoder import OnnxEncoder
    from mappable.features.onnx_export import check_file, export_onnx
    from mappable.maps.encoders import find_encoder

    check_file(out)
    check_new(overwrite, out)
    source = trained = _exportable(find_encoder(encoder_file))
    if trained.suffix == ".onnx" and int8 is None:
        raise BadInputError(
            f"{trained}: is an ONNX file already; give --int8 to convert it to int8"
        )
    facts: dict[str, Any] = {}
    with TemporaryDirectory(prefix="mappable-") as folder:
        if source.suffix != ".onnx":
            source = Path(folder) / "float32.onnx" if int8 else out
            facts["difference"] = export_onnx(Encoder.load(trained), source)
        if int8 is not None:
            facts["int8"] = _quantize(source, out, int8, tolerate, positive_radius)
    written = OnnxEncoder(out)
    facts |= {
        "encoder": written.fingerprint,
        "precision": written.precision,
        "dimensions": written.dimensions,
    }
    print_record(facts | {"file": str(out), "bytes": out.stat().st_size}, as_json)


def _exportable(source: Path | str) -> Path:
    """The file of an encoder of ours; raise for a foreign one."""
    from mappable.features.onnx_file import FORMAT
    from mappable.features.opening import is_hub
    from mappable.files import reading

    file = Path(source)
    foreign = is_hub(source) or file.suffix == ".yaml"
    if not foreign and file.suffix == ".onnx":
        with reading(file):
            foreign = FORMAT.name.encode() not in file.read_bytes()
    if foreign:
        raise BadInputError(
            f"{source}: is a foreign encoder; export writes only encoders that `mappable train`"
            " made"
        )
    return file


def _quantize(
    source: Path, out: Path, table: Path, tolerate: float, radius: float | None
) -> dict[str, Any]:
    from mappable.features.onnx_encoder import OnnxEncoder
    from mappable.features.onnx_int8 import export_int8
    from mappable.places.cache import find_packed
    from mappable.places.files import load_places

    places, about = load_places(table), OnnxEncoder(source).about
    print_used_images(
        places,
        "measuring int8 on",
        references=places.references(),
        calibration=places.calibration(),
    )
    packed = find_packed(table, places, about.size, about.fit)
    return asdict(export_int8(source, out, places, packed, tolerate=tolerate, radius=radius))
