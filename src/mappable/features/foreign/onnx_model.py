"""ONNX files of others: the network in the file, and external data from its folder alone."""

import hashlib
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mappable.checksums import check_seal, seal
from mappable.errors import BadInputError
from mappable.features.foreign.description import Description, check_description
from mappable.features.foreign.encoder import ForeignEncoder
from mappable.features.onnx_encoder import CUDA, open_session, run_session
from mappable.features.onnx_file import require
from mappable.files import reading
from mappable.formats import KEY, Format

FORMAT = Format(
    "mappable foreign onnx encoder",
    1,
    "build the map again with `mappable map build`",
    sealed_since=1,
)


def open_onnx(file: Path, description: Description, providers: list[Any] | None) -> ForeignEncoder:
    """Open an ONNX file with its description. External data must be in plain files beside it."""
    require("onnx", "onnxruntime")
    import onnx

    with reading(file):
        file.stat()
    try:
        model = onnx.load(str(file))  # it refuses other folders, and links
    except Exception as error:  # errors of onnx and protobuf have no common base class
        reason = str(error).splitlines()[0][:200]
        raise BadInputError(
            f"{file}: truncated, damaged or not an ONNX file with its data ({reason})"
        ) from None
    digest = hashlib.sha256(model.SerializeToString(deterministic=True)).hexdigest()
    return _encoder(file.name, file, model, description, digest, providers)


def open_kept(file: Path, content: bytes, providers: list[Any] | None) -> ForeignEncoder:
    """Open the copy of an ONNX file and its description that a map keeps."""
    require("onnx", "onnxruntime")
    with FORMAT.reading(file):
        check_seal(content, file)
    import onnx

    model = onnx.load_model_from_string(content)
    text = next((one.value for one in model.metadata_props if one.key == KEY), None)
    name, weights, description = parse_kept(text, file)
    return _encoder(name, file, model, description, weights, providers)


def parse_kept(text: str | None, file: Path) -> tuple[str, str, Description]:
    """Name, hash of the weights, and description, from the metadata of a copy."""
    with FORMAT.reading(file):
        values = FORMAT.parse(text, file)
        return (
            str(values["name"]),
            str(values["weights"]),
            check_description(dict(values["description"]), str(file)),
        )


def _encoder(
    name: str,
    file: Path,
    model: Any,
    description: Description,
    weights: str,
    providers: list[Any] | None,
) -> ForeignEncoder:
    import onnx

    del model.metadata_props[:]
    try:
        session = open_session(model.SerializeToString(), providers=providers)
    except Exception as error:  # onnxruntime's and protobuf's errors have no common base class
        reason = str(error).splitlines()[0][:200]
        raise BadInputError(f"{file}: onnxruntime cannot open it ({reason})") from None
    network = _Network(session, description, file)

    def copy() -> tuple[str, bytes]:
        facts = {
            "name": name,
            "weights": weights,
            "description": description.model_dump(mode="json", exclude_none=True),
        }
        onnx.helper.set_model_props(model, {KEY: FORMAT.text(facts, indent=None)})
        return ".onnx", seal(model.SerializeToString())

    device = torch.device("cuda" if session.get_providers()[0] == CUDA else "cpu")
    return ForeignEncoder(
        str(file),
        description,
        network,
        title=name,
        entry="",
        code="",
        weights=weights,
        weight_bytes=model.ByteSize(),
        copy=copy,
        device=device,
        inputs=torch.device("cpu"),
    )


class _Network:
    """A session of onnxruntime, for any number of images. A fixed batch size is filled with the
    first image.
    """

    def __init__(self, session: Any, description: Description, file: Path) -> None:
        inputs, outputs = session.get_inputs(), [one.name for one in session.get_outputs()]
        if len(inputs) != 1 or inputs[0].type != "tensor(float)":
            listed = ", ".join(f"{one.name} {one.type}" for one in inputs)
            raise BadInputError(
                f"{file}: its inputs are {listed}; expected one input of images, tensor(float)"
            )
        self.session, self.file, self.input = session, file, inputs[0].name
        shape, expected = inputs[0].shape, description.input_shape
        if len(shape) != 4 or any(
            isinstance(own, int) and own != given
            for own, given in zip(shape[1:], expected, strict=True)
        ):
            said = (
                f"layout {description.layout} and size {description.size[0]}x{description.size[1]}"
            )
            raise BadInputError(
                f"{file}: its input has the shape {shape}, but the description says {said}"
            )
        self.batch = shape[0] if isinstance(shape[0], int) else None
        wanted = description.output
        if wanted is None and len(outputs) > 1:
            raise BadInputError(
                f"{file}: has {len(outputs)} outputs; name one with `output`: {', '.join(outputs)}"
            )
        if wanted is not None and wanted not in outputs:
            raise BadInputError(
                f"{file}: has no output {wanted!r}; its outputs are {', '.join(outputs)}"
            )
        self.output = outputs[0] if wanted is None else wanted

    def __call__(self, images: Tensor) -> Any:
        if self.batch is None or self.batch == len(images):
            return self._run(images)
        parts = []
        for part in torch.split(images, self.batch):
            missing = self.batch - len(part)
            filled = torch.cat([part, part[:1].expand(missing, *part.shape[1:])])
            output = self._run(filled)
            if not output.ndim or len(output) != self.batch:
                return output  # of a wrong shape, which the encoder reports
            parts.append(output[: len(part)])
        return torch.cat(parts)

    def _run(self, images: Tensor) -> Tensor:
        try:
            return run_session(self.session, self.output, self.input, images)
        except MemoryError:
            raise
        except Exception as error:
            reason = str(error).splitlines()[0][:200]
            raise BadInputError(
                f"{self.file}: onnxruntime fails on {len(images)} images ({reason})"
            ) from None
