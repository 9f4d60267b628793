"""An encoder in an ONNX file, computed by onnxruntime, with the same interface as `Encoder`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mappable.checksums import check_seal
from mappable.errors import BadInputError
from mappable.features.image_encoder import ImageEncoder
from mappable.features.onnx_file import DESCRIPTORS, FORMAT, IMAGES, Facts, require
from mappable.formats import KEY

CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"
NOWHERE = "/nonexistent"  # a folder without files


class OnnxEncoder(ImageEncoder):
    """Describes images with a file of `export_onnx` or `export_int8`.

    A float32 file is the same encoder as its source, with the same fingerprint: one may describe a
    map's landmarks and the other the queries. An int8 file is a different encoder and needs its own
    map.

    `threads` is the number of threads per call (default: as many as torch uses). `providers` are
    onnxruntime's, in order of preference (default: a GPU if onnxruntime finds one, else the CPU).
    """

    inputs = torch.device("cpu")

    def __init__(
        self,
        file: Path | str,
        *,
        threads: int | None = None,
        providers: Sequence[Any] | None = None,
    ) -> None:
        require("onnxruntime")
        if not Path(file).is_file():
            raise BadInputError(f"{file}: no such ONNX file")
        with FORMAT.reading(Path(file)):
            content = Path(file).read_bytes()
            check_seal(content, Path(file))
        try:
            self._session = open_session(content, threads=threads, providers=providers)
            described = self._session.get_modelmeta().custom_metadata_map.get(KEY)
        except Exception as error:  # onnxruntime's errors have no common base class
            reason = str(error).splitlines()[0]
            raise BadInputError(
                f"{file}: truncated, damaged or not an ONNX file ({reason})"
            ) from None
        if described is None:
            remedy = (
                f"describe its images in {Path(file).with_suffix('.yaml').name} beside it"
                " (docs/encoders.md)"
            )
            raise BadInputError(
                f"{file}: an ONNX file that `mappable export` did not write; {remedy}"
            )
        self._file = Path(file)
        self.facts = Facts.from_text(described, Path(file))
        self.about, self.dimensions = self.facts.about, self.facts.dimensions
        # The encoder's own in float32, another one in int8.
        self.fingerprint = self.facts.fingerprint
        self.precision = self.facts.precision  # of the convolutions: float32 or int8
        self.precisions = (self.precision,)
        self.provider = str(self._session.get_providers()[0])
        self.device = torch.device("cuda" if self.provider == CUDA else "cpu")

    def copy(self) -> tuple[str, bytes]:
        """The suffix and the content of the encoder's file."""
        return ".onnx", self._file.read_bytes()

    def describe(self, images: Tensor) -> Tensor:
        """The output of the session."""
        if not len(images):
            return torch.empty((0, self.dimensions))
        return run_session(self._session, DESCRIPTORS, IMAGES, images)


def run_session(session: Any, output: Any, name: str, images: Tensor) -> Tensor:
    """The output of a session for images as its input `name`. A lack of memory raises MemoryError."""
    try:
        return torch.from_numpy(session.run([output], {name: images.numpy()})[0])
    except Exception as error:
        if "allocate memory" in str(error):
            raise MemoryError from error
        raise


def open_session(
    content: bytes, *, threads: int | None = None, providers: Sequence[Any] | None = None
) -> Any:
    """Open an onnxruntime session for the content of a file. It fails if the content refers to
    other files.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads() if threads is None else threads
    options.log_severity_level = 4  # errors are raised, so onnxruntime need not print them too
    # By default, onnxruntime reads other files that the content names from the current folder.
    options.add_session_config_entry(
        "session.model_external_initializers_file_folder_path", NOWHERE
    )
    available = onnxruntime.get_available_providers()
    chosen = [name for name in (CUDA, CPU) if name in available] if providers is None else providers
    return onnxruntime.InferenceSession(content, options, providers=chosen)
