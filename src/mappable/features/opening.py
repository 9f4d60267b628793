"""Open an encoder from its file, from the folder of a training run, or from torch.hub."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from mappable.errors import BadInputError
from mappable.features.devices import find_device
from mappable.features.encoder import Encoder
from mappable.features.files import encoder_file
from mappable.features.foreign.description import read_description
from mappable.features.foreign.hub import PREFIX, open_described, open_hub
from mappable.features.foreign.named import find_named
from mappable.features.foreign.onnx_model import FORMAT as KEPT
from mappable.features.foreign.onnx_model import open_kept, open_onnx
from mappable.features.image_encoder import ImageEncoder
from mappable.features.onnx_encoder import CPU, CUDA, OnnxEncoder
from mappable.features.onnx_export import export_onnx
from mappable.features.onnx_file import FORMAT, require
from mappable.features.weights import cache_folder
from mappable.files import reading

Backend = Literal["torch", "onnx"]


def open_file(
    source: Path | str,
    device: str = "auto",
    backend: Backend | None = None,
    *,
    trust_code: bool = False,
) -> ImageEncoder:
    """Open the encoder in a file, in a training run's folder or on torch.hub, or a named one, on
    `device`.

    torch computes a .safetensors file. With `backend` "onnx", onnxruntime computes it, from an ONNX
    file that is exported once to the user's cache. onnxruntime computes an .onnx file. If `mappable
    export` did not write that file, a description is beside it, with the suffix .yaml. A
    description can also name a torch.hub model; so does a source like hub:OWNER/REPO:ENTRY. Foreign
    code runs only after consent, which `trust_code` gives.
    """
    if named := find_named(source):
        _refuse_onnx(str(source), backend)
        return open_described(named.description(str(source)), device, trust_code=trust_code)
    if str(source).startswith(PREFIX):
        _refuse_onnx(str(source), backend)
        return open_hub(str(source), device, trust_code=trust_code)
    file = encoder_file(source)
    if file.suffix not in OPENERS:
        raise BadInputError(
            f"{file}: not an encoder file; its name must end in {' or '.join(OPENERS)}"
        )
    return OPENERS[file.suffix](file, device, backend, trust_code)


def is_hub(source: Path | str) -> bool:
    """True if `source` names a torch.hub model instead of a file."""
    return str(source).startswith(PREFIX) or find_named(source) is not None


def _open_torch(file: Path, device: str, backend: Backend | None, trust_code: bool) -> ImageEncoder:
    encoder = Encoder.load(file)
    if backend != "onnx":
        return encoder.to(find_device(device))
    opened = OnnxEncoder(_exported(encoder), providers=_providers(device))
    # The cached file may come from another encoder with the same weights.
    opened.about = encoder.about
    return opened


def _open_onnx(file: Path, device: str, backend: Backend | None, trust_code: bool) -> ImageEncoder:
    if backend == "torch":
        raise BadInputError(
            f"{file}: torch cannot compute ONNX files; give encoder.safetensors, or use --backend"
            " onnx"
        )
    providers, described = _providers(device), file.with_suffix(".yaml")
    with reading(file):
        content = file.read_bytes()
    if KEPT.name.encode() in content:
        return open_kept(file, content, providers)
    if FORMAT.name.encode() in content or not described.is_file():
        return OnnxEncoder(file, providers=providers)
    return _open_description(described, device, backend, trust_code)


def _open_description(
    file: Path, device: str, backend: Backend | None, trust_code: bool
) -> ImageEncoder:
    description = read_description(file)
    if description.hub is not None:
        _refuse_onnx(str(file), backend)
        return open_described(description, device, below=file.parent, trust_code=trust_code)
    model = file.parent / (description.onnx or file.with_suffix(".onnx").name)
    if model.parent != file.parent or not model.is_file():
        raise BadInputError(f"{file}: describes {model.name}, but there is no such file beside it")
    return open_onnx(model, description, _providers(device))


def _refuse_onnx(source: str, backend: Backend | None) -> None:
    if backend == "onnx":
        raise BadInputError(
            f"{source}: torch computes torch.hub models, onnxruntime cannot; leave out --backend"
        )


OPENERS: dict[str, Callable[[Path, str, Backend | None, bool], ImageEncoder]] = {
    ".safetensors": _open_torch,
    ".onnx": _open_onnx,
    ".yaml": _open_description,
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
        raise BadInputError(
            f"device is {device!r}, but onnxruntime finds no GPU; install onnxruntime-gpu"
        )
    return [(CUDA, {"device_id": number}), CPU]
