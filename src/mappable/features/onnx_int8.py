"""An encoder's convolutions in int8, in an ONNX file that is written only if it locates about as well as in float32."""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from mappable.arrays import Ints, Pixels, evenly
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

QUANTISED = ["Conv", "Relu", "MaxPool"]  # of the backbone; the aggregator has none of them, and stays in float32
LEAST_IMAGES = 10  # to measure ranges on, and to ask about
MOST_QUERIES = 500  # of more, some are taken evenly
USUAL_LANDMARKS = 200  # where the encoder's settings do not say


@dataclass(frozen=True, kw_only=True)
class Accuracy:
    """The share of held-out images, in %, whose nearest landmark by descriptor is within the radius."""

    float32: float
    int8: float
    queries: int
    landmarks: int
    radius: float
    images: int  # that ranges were measured on

    @property
    def loss(self) -> float:
        """Percentage points."""
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
    """Write the ONNX file of an encoder in int8, unless that loses more than `tolerate` percentage points of accuracy.

    `source` is its file in float32, by `export_onnx`; it stays as it is.

    Ranges of activations are measured on `count` of `places.references()`, spread evenly; landmarks are chosen among
    them too. Queries are `places.calibration()`; if that is empty, every other reference, which then gives no range
    and no landmark. `radius` is what counts as right (default: the encoder's positive radius). `images` (n, height,
    width, 3) are those of the places, whose files are decoded otherwise.
    """
    file, encoder = check_file(file), OnnxEncoder(source)
    if encoder.precision != "float32" or file.resolve() == Path(source).resolve():
        raise BadInputError(f"{source}: int8 is made of a file in float32, and goes to another file")
    right = _checked_radius(encoder.about.positive_radius if radius is None else radius)
    references, queries = _split(places)
    if min(len(references), len(queries)) < LEAST_IMAGES or count < LEAST_IMAGES:
        few = f"{min(count, len(references)):,} images to measure ranges on and {len(queries):,} to ask about"
        raise BadInputError(f"there are {few}, but int8 needs at least {LEAST_IMAGES} of each")
    usual = min(int(encoder.about.settings.get("landmarks", USUAL_LANDMARKS)), len(references))
    monitor = Monitor(places[references], places[queries], landmarks=usual, radius=right)
    sample = references[evenly(len(references), count)]
    pixels = images_of(places if images is None else images, encoder.about.size, encoder.about.fit)
    quantised = to_int8(Path(source).read_bytes(), pixels.read(sample))
    rows = np.concatenate([references, queries])

    def share(one: OnnxEncoder) -> float:
        return 100 * monitor.accuracy(lambda asked: torch.from_numpy(one.embed(pixels.take(rows[asked]))))

    measured = Accuracy(
        float32=share(encoder),
        int8=share(_opened(quantised)),
        queries=len(queries),
        landmarks=len(monitor.landmarks),
        radius=right,
        images=len(sample),
    )
    if not measured.float32:
        raise BadInputError(f"no image finds a landmark within {right:g}, so that nobody knows what int8 would lose")
    if measured.loss > tolerate:
        raise BadInputError(
            f"{file}: not written, for int8 loses {measured.loss:.1f} points of accuracy ({measured.float32:.1f} to "
            f"{measured.int8:.1f} % of {measured.queries:,} held-out images), where {tolerate:g} are tolerated"
        )
    written = with_accuracy(quantised, asdict(measured))
    write_atomically(file, lambda stream: stream.write(written))
    return measured


def _checked_radius(radius: float | None) -> float:
    if radius is None:
        raise BadInputError("the encoder does not know its radius: give what counts as right (--positive-radius)")
    if not 0 < radius < np.inf:
        raise BadInputError(f"the positive radius is {radius}, but must be above 0")
    return radius


def _split(places: Places) -> tuple[Ints, Ints]:
    """Rows of references, and of images to ask about."""
    references, queries = places.references(), places.calibration()
    if not len(queries):
        references, queries = references[::2], references[1::2]
    return references, queries[evenly(len(queries), MOST_QUERIES)]


def _opened(content: bytes) -> OnnxEncoder:
    with TemporaryDirectory(prefix="mappable-") as folder:
        file = Path(folder) / "encoder.onnx"
        file.write_bytes(content)
        return OnnxEncoder(file)


def to_int8(content: bytes, images: Pixels) -> bytes:
    """The content of a file in int8, for that of one in float32, and images (n, height, width, 3) of its size.

    Weights have a scale for each channel, activations one that spans all values that the images led to. What it holds
    says that it is of the same encoder, but has a fingerprint of its own.
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
                op_types_to_quantize=QUANTISED,
            )
        quantised = onnx.load(after)
    facts = facts_of(content)
    own = hashlib.sha256(quantised.graph.SerializeToString(deterministic=True)).hexdigest()[:16]
    return _with(quantised, replace(facts, precision="int8", fingerprint=own, of=facts.fingerprint))


def with_accuracy(content: bytes, accuracy: Mapping[str, float]) -> bytes:
    """The same content, that also says what was measured."""
    import onnx

    return _with(onnx.load_from_string(content), replace(facts_of(content), accuracy=accuracy))


def facts_of(content: bytes) -> Facts:
    """What the content of a file says about itself."""
    import onnx

    model = onnx.load_from_string(content)
    text = next(entry.value for entry in model.metadata_props if entry.key == KEY)
    return Facts.from_text(text, Path("encoder.onnx"))


def _with(model: Any, facts: Facts) -> bytes:
    import onnx

    model.ClearField("metadata_props")
    onnx.helper.set_model_props(model, {KEY: facts.to_text()})
    onnx.checker.check_model(model)
    content: bytes = model.SerializeToString()
    return content


class _Images:
    """Images one by one, as onnxruntime asks for them."""

    def __init__(self, images: Pixels, advance: Advance) -> None:
        self.images, self.advance = iter(images), advance

    def get_next(self) -> dict[str, Pixels] | None:
        image = next(self.images, None)
        if image is None:
            return None
        self.advance(1)
        return {IMAGES: image[None]}
