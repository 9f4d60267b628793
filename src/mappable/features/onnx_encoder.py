"""An encoder in an ONNX file, by onnxruntime: images in and descriptors out as with `Encoder`, without its network."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mappable.arrays import Floats32, Pixels
from mappable.errors import BadInputError
from mappable.features.embedding import Precision, embed_images
from mappable.features.onnx_file import DESCRIPTORS, IMAGES, Facts, require
from mappable.formats import KEY
from mappable.places.pixels import AnyImages

CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"


class OnnxEncoder:
    """What `export_onnx` wrote, or `export_int8`, made ready to describe images.

    In float32 it is the encoder that the file was made of: the fingerprint is the same, and the one may describe a
    map's landmarks and the other queries. In int8 it is an encoder of its own, and needs a map of its own.

    `threads` are those of one call (default: as many as torch takes). `providers` are onnxruntime's, the one it should
    try first at the front (default: a GPU if onnxruntime finds one, else the CPU).
    """

    def __init__(self, file: Path | str, *, threads: int | None = None, providers: Sequence[Any] | None = None) -> None:
        require("onnxruntime")
        if not Path(file).is_file():
            raise BadInputError(f"{file}: no such ONNX file")
        try:
            self._session = open_session(str(file), threads=threads, providers=providers)
        except Exception as error:  # whatever it is: onnxruntime's errors have no family
            reason = str(error).splitlines()[0]
            raise BadInputError(f"{file}: truncated, damaged or not an ONNX file ({reason})") from None
        self.facts = Facts.from_text(self._session.get_modelmeta().custom_metadata_map.get(KEY), Path(file))
        self.about = self.facts.about

    @property
    def dimensions(self) -> int:
        """The length of a descriptor."""
        return self.facts.dimensions

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits: those of the encoder in float32, others in int8."""
        return self.facts.fingerprint

    @property
    def precision(self) -> str:
        """What the convolutions compute in: float32 or int8."""
        return self.facts.precision

    @property
    def provider(self) -> str:
        """What of onnxruntime computes."""
        return str(self._session.get_providers()[0])

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return torch.device("cuda" if self.provider == CUDA else "cpu")

    def actual_precision(self, precision: Precision) -> str:
        """The precision of the file; raises if asked for another."""
        if precision not in ("auto", self.precision):
            raise BadInputError(f"precision is {precision!r}, but this ONNX file computes in {self.precision}")
        return self.precision

    def for_queries(self) -> Callable[[Pixels], Floats32]:
        """A function that describes a few decoded images: `embed` without a progress bar."""
        return partial(self.embed, progress=False)

    def embed(
        self,
        images: AnyImages,
        *,
        batch_size: int | None = None,
        precision: Precision = "auto",
        progress: bool = True,
    ) -> Floats32:
        """As `Encoder.embed`; the precision is that of the file, and another one is refused."""
        self.actual_precision(precision)
        return embed_images(
            self._compute,
            images,
            self.about,
            device="cpu",
            batch_size=batch_size,
            precision="float32",
            progress=progress,
        )

    def _compute(self, images: Tensor) -> Tensor:
        if not len(images):
            return torch.empty((0, self.dimensions))
        try:
            return torch.from_numpy(self._session.run([DESCRIPTORS], {IMAGES: images.numpy()})[0])
        except Exception as error:
            if "allocate memory" in str(error):
                raise MemoryError from error
            raise


def open_session(model: str | bytes, *, threads: int | None = None, providers: Sequence[Any] | None = None) -> Any:
    """onnxruntime's session of a file or its content."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads() if threads is None else threads
    options.log_severity_level = 4  # errors are raised, and need not be printed too
    available = onnxruntime.get_available_providers()
    chosen = [name for name in (CUDA, CPU) if name in available] if providers is None else providers
    return onnxruntime.InferenceSession(model, options, providers=chosen)
