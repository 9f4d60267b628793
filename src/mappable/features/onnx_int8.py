"""An encoder's ONNX file in int8: its convolutions, with ranges measured on the user's images; all else in float32."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mappable.arrays import Pixels
from mappable.features.onnx_export import quiet
from mappable.features.onnx_file import IMAGES, Facts
from mappable.formats import KEY
from mappable.progress import Advance, progress_bar

QUANTISED = ["Conv", "Relu", "MaxPool"]  # of the backbone; the aggregator has none of them, and stays in float32


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
