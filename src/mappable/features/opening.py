"""Open an encoder from its file, or from the folder of a training run."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from mappable.errors import BadInputError
from mappable.features.devices import find_device
from mappable.features.encoder import Encoder
from mappable.features.files import encoder_file
from mappable.features.image_encoder import ImageEncoder
from mappable.features.onnx_encoder import CPU, CUDA, OnnxEncoder
from mappable.features.onnx_export import export_onnx
from mappable.features.onnx_file import FORMAT, require
from mappable.features.weights import cache_folder

Backend = Literal["torch", "onnx"]


def open_file(source: Path | str, device: str = "auto", backend: Backend | None = None) -> ImageEncoder:
    """Open the encoder in a file (.safetensors, .onnx) or in a training run's folder, on `device`.

    torch computes a .safetensors file. With `backend` "onnx", onnxruntime computes it, from an ONNX file that is
    exported once to the user's cache. onnxruntime computes an .onnx file.
    """
    file = encoder_file(source)
    if file.suffix not in OPENERS:
        raise BadInputError(f"{file}: not an encoder file; its name must end in {' or '.join(OPENERS)}")
    return OPENERS[file.suffix](file, device, backend)


def _open_torch(file: Path, device: str, backend: Backend | None) -> ImageEncoder:
    encoder = Encoder.load(file)
    if backend != "onnx":
        return encoder.to(find_device(device))
    opened = OnnxEncoder(_exported(encoder), providers=_providers(device))
    opened.about = encoder.about  # the cached file may come from another encoder with the same weights
    return opened


def _open_onnx(file: Path, device: str, backend: Backend | None) -> ImageEncoder:
    if backend == "torch":
        raise BadInputError(f"{file}: torch cannot compute ONNX files; give encoder.safetensors, or use --backend onnx")
    return OnnxEncoder(file, providers=_providers(device))


OPENERS: dict[str, Callable[[Path, str, Backend | None], ImageEncoder]] = {
    ".safetensors": _open_torch,
    ".onnx": _open_onnx,
}


def _exported(encoder: Encoder) -> Path:
    """The encoder's ONNX file in the cache. It is exported if it is missing or damaged."""
    file = cache_folder() / "onnx" / f"{encoder.fingerprint}-v{FORMAT.version}.onnx"
    require("onnxruntime")
    try:
        OnnxEncoder(file, providers=[CPU])
    except BadInputError:
        export_onnx(encoder, file)
    return file


def _providers(device: str) -> list[Any] | None:
    """onnxruntime's providers for a device; None lets onnxruntime choose."""
    if device == "auto":
        return None
    if device == "cpu":
        return [CPU]
    require("onnxruntime")
    import onnxruntime

    number = find_device(device).index
    if CUDA not in onnxruntime.get_available_providers():
        raise BadInputError(f"device is {device!r}, but onnxruntime finds no GPU; install onnxruntime-gpu")
    return [(CUDA, {"device_id": number}), CPU]
