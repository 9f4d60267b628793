"""What computes an encoder: torch from its own file, or onnxruntime from an ONNX file."""

from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from mappable.errors import BadInputError
from mappable.features.about import About
from mappable.features.devices import find_device
from mappable.features.embedding import Precision, Source
from mappable.features.encoder import Encoder
from mappable.features.onnx_encoder import CPU, CUDA, OnnxEncoder
from mappable.features.onnx_export import export_onnx
from mappable.features.onnx_file import VERSION, require
from mappable.features.weights import cache_folder
from mappable.places.table import Places

Backend = Literal["torch", "onnx"]


class Describer(Protocol):
    """What maps need of an encoder; `Encoder` and `OnnxEncoder` have it."""

    about: About

    @property
    def dimensions(self) -> int: ...

    @property
    def fingerprint(self) -> str: ...

    def embed(
        self,
        images: Places | Source,
        *,
        batch_size: int | None = None,
        precision: Precision = "auto",
        progress: bool = True,
    ) -> NDArray[np.float32]: ...


def load_encoder(file: Path, device: str = "auto", backend: Backend | None = None) -> Encoder | OnnxEncoder:
    """The encoder of a file, or of the folder of a training run, on a device.

    An .onnx file is computed by onnxruntime, any other by torch; with `backend` "onnx" that one by onnxruntime too, for
    which it is exported to the user's cache, once.
    """
    chosen = backend_of(file, backend)
    if file.suffix == ".onnx":
        return OnnxEncoder(file, providers=_providers(device))
    encoder = Encoder.load(file / "encoder.safetensors" if file.is_dir() else file)
    if chosen == "torch":
        return encoder.to(find_device(device))
    loaded = OnnxEncoder(_exported(encoder), providers=_providers(device))
    loaded.about = encoder.about  # the file in the cache may have been that of another with the same weights
    return loaded


def backend_of(file: Path, asked: Backend | None = None) -> Backend:
    """What computes a file: what is asked for, else what its name says."""
    if file.suffix == ".onnx":
        if asked == "torch":
            raise BadInputError(f"{file}: torch computes no ONNX files; give encoder.safetensors, or --backend onnx")
        return "onnx"
    return asked or "torch"


def _exported(encoder: Encoder) -> Path:
    """The encoder's ONNX file in the cache, which is made unless it is there and sound."""
    file = cache_folder() / "onnx" / f"{encoder.fingerprint}-v{VERSION}.onnx"
    require("onnxruntime")
    try:
        OnnxEncoder(file, providers=[CPU])
    except BadInputError:
        export_onnx(encoder, file)
    return file


def _providers(device: str) -> list[Any] | None:
    """onnxruntime's names for a device that it finds here; None: what it finds."""
    if device == "auto":
        return None
    if device == "cpu":
        return [CPU]
    require("onnxruntime")
    import onnxruntime

    number = find_device(device).index
    if CUDA not in onnxruntime.get_available_providers():
        raise BadInputError(f"device is {device!r}, but onnxruntime finds no GPU here (onnxruntime-gpu would)")
    return [(CUDA, {"device_id": number}), CPU]
