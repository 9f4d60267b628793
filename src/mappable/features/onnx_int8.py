"""Export an encoder with int8 convolutions to ONNX, if it localizes about as well as in float32."""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from mappable.arrays import Ints, Pixels, evenly
from mappable.checksums import seal
from mappable.errors import BadInputError
from mappable.features.monitor import Monitor
from mappable.features.onnx_encoder import OnnxEncoder
from mappable.features.onnx_export import check_file, quiet
from mappable.features.onnx_file import IMAGES, Facts
from mappable.files import write_atomically
from mappable.formats import KEY
from mappable.places.pixels import AnyImages, images_of
from mappable.places.table import Places
from mappable.progress import Advance, progress_bar

# Operations of the backbone; the aggregator has none and stays in float32.
QUANTIZED = ["Conv", "Relu", "MaxPool"]
MIN_IMAGES = 10  # for measuring ranges, and for queries
MAX_QUERIES = 500  # more queries are thinned out evenly
DEFAULT_LANDMARKS = 200  # if the encoder's settings do not record a number


@dataclass(frozen=True, kw_only=True)
class Accuracy:
    """Percentage of held-out images whose nearest landmark by descriptor is within the radius."""

    float32: float
    int8: float
    queries: int
    landmarks: int
    radius: float
    images: int  # number of images on which ranges were measured

    @property
    def loss(self) -> float:
        """Loss of accuracy by int8, in percentage points."""
        return self.float32 - self.int8


def export_int8(
    source: Path | str,
    file: Path | str,
    places: Places,
    images: AnyImages | None = None,
    *,
    count: int = 64,
    tolerate: float = 1.0,
    radius: float | None = None,
) -> Accuracy:
    """Write the ONNX file of an encoder in int8, unless that loses more than `tolerate` percentage
    points of accuracy.

    `source` is the encoder's float32 file, written by `export_onnx`; it is not changed. Ranges of
    activations are measured on `count` of `places.references()`, spread evenly. Landmarks are
    chosen among the references too. Queries are `places.calibration()`. If that is empty, every
    other reference is a query, and is not used otherwise.

    `radius` is the distance within which a match counts as correct (default: the encoder's positive
    radius). `images` (n, height, width, 3) are the images of the places; by default, the files of
    the places are decoded.
    """
    file, encoder = check_file(file), OnnxEncoder(source)
    if encoder.precision != "float32":
        raise BadInputError(
            f"{source}: is an {encoder.precision} file, but int8 needs a float32 file as its source"
        )
    if file.resolve() == Path(source).resolve():
        raise BadInputError(
            f"{source}: is both the source and the target; give int8 another file name"
        )
    radius = _checked_radius(encoder.about.positive_radius if radius is None else radius)
    references, queries = _split(places)
    if min(len(references), len(queries)) < MIN_IMAGES or count < MIN_IMAGES:
        available = (
            f"{min(count, len(references)):,} images for measuring ranges and {len(queries):,}"
            " queries"
        )
        raise BadInputError(f"int8 needs at least {MIN_IMAGES} of each, got {available}")
    landmarks = min(
        int(encoder.about.settings.get("landmarks", DEFAULT_LANDMARKS)), len(references)
    )
    monitor = Monitor(places[references], places[queries], landmarks=landmarks, radius=radius)
    sample = references[evenly(len(references), count)]
    pixels = images_of(places if images is None else images, encoder.about.size, encoder.about.fit)
    quantized = to_int8(Path(source).read_bytes(), pixels.read(sample))
    rows = np.concatenate([references, queries])

    def percentage(encoder: OnnxEncoder) -> float:
        return 100 * monitor.accuracy(
            lambda asked: torch.from_numpy(encoder.embed(pixels.take(rows[asked])))
        )

    accuracy = Accuracy(
        float32=percentage(encoder),
        int8=percentage(_opened(quantized)),
        queries=len(queries),
        landmarks=len(monitor.landmarks),
        radius=radius,
        images=len(sample),
    )
    if not accuracy.float32:
        raise BadInputError(
            f"no query finds a landmark within {radius:g}, so that the loss by int8 cannot be"
            " measured; use other places, or a larger radius"
        )
    if accuracy.loss > tolerate:
        raise BadInputError(
            f"{file}: not written because int8 loses {accuracy.loss:.1f} percentage points of"
            f" accuracy ({accuracy.float32:.1f} to {accuracy.int8:.1f} % of {accuracy.queries:,}"
            f" held-out images), expected at most {tolerate:g}"
        )
    content = with_accuracy(quantized, asdict(accuracy))
    write_atomically(file, lambda stream: stream.write(content))
    return accuracy


def _checked_radius(radius: float | None) -> float:
    if radius is None:
        raise BadInputError(
            "the encoder file records no positive radius; give one (--positive-radius)"
        )
    if not 0 < radius < np.inf:
        raise BadInputError(f"the positive radius is {radius}, expected a number above 0")
    return radius


def _split(places: Places) -> tuple[Ints, Ints]:
    """Rows of references and of queries."""
    references, queries = places.references(), places.calibration()
    if not len(queries):
        references, queries = references[::2], references[1::2]
    return references, queries[evenly(len(queries), MAX_QUERIES)]


def _opened(content: bytes) -> OnnxEncoder:
    with TemporaryDirectory(prefix="mappable-") as folder:
        file = Path(folder) / "encoder.onnx"
        file.write_bytes(content)
        return OnnxEncoder(file)


def to_int8(content: bytes, images: Pixels) -> bytes:
    """Convert the content of a float32 file to int8, with images (n, height, width, 3) of its size.

    Weights have one scale per channel. Activations have one scale per layer, which spans all values
    that occur for these images. The description names the same encoder, but has its own
    fingerprint.
    """
    import onnx
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    model = onnx.load_from_string(content)
    with TemporaryDirectory(prefix="mappable-") as name, quiet():
        before, after = Path(name) / "float32.onnx", Path(name) / "int8.onnx"
        quant_pre_process(model, before, skip_symbolic_shape=True)
        with progress_bar("measuring ranges", len(images)) as advance:
            quantize_static(
                before,
                after,
                _Images(images, advance),
                quant_format=QuantFormat.QDQ,
                per_channel=True,
                activation_type=QuantType.QUInt8,
                weight_type=QuantType.QInt8,
                op_types_to_quantize=QUANTIZED,
            )
        quantized = onnx.load(after)
    facts = facts_of(content)
    fingerprint = hashlib.sha256(quantized.graph.SerializeToString(deterministic=True)).hexdigest()[
        :16
    ]
    return _with_facts(
        quantized, replace(facts, precision="int8", fingerprint=fingerprint, of=facts.fingerprint)
    )


def with_accuracy(content: bytes, accuracy: Mapping[str, float]) -> bytes:
    """The same content, with the measured accuracy in its description."""
    import onnx

    return _with_facts(
        onnx.load_from_string(content), replace(facts_of(content), accuracy=accuracy)
    )


def facts_of(content: bytes) -> Facts:
    """The description in the content of a file."""
    import onnx

    model = onnx.load_from_string(content)
    text = next(entry.value for entry in model.metadata_props if entry.key == KEY)
    return Facts.from_text(text, Path("encoder.onnx"))


def _with_facts(model: Any, facts: Facts) -> bytes:
    import onnx

    model.ClearField("metadata_props")
    onnx.helper.set_model_props(model, {KEY: facts.to_text()})
    onnx.checker.check_model(model)
    return seal(model.SerializeToString())


class _Images:
    """Gives images one by one to onnxruntime."""

    def __init__(self, images: Pixels, advance: Advance) -> None:
        self.images, self.advance = iter(images), advance

    def get_next(self) -> dict[str, Pixels] | None:
        image = next(self.images, None)
        if image is None:
            return None
        self.advance(1)
        return {IMAGES: image[None]}
