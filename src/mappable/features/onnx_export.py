"""Export an encoder to one ONNX file, with normalization, backbone, aggregator and reduction."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from mappable.arrays import Pixels
from mappable.checksums import seal
from mappable.errors import BadInputError
from mappable.features.embedding import backbone_precision
from mappable.features.encoder import Encoder
from mappable.features.onnx_file import DESCRIPTORS, IMAGES, Facts, require
from mappable.files import write_atomically
from mappable.formats import KEY
from mappable.places.images import Size
from mappable.progress import progress_bar

# Length of the difference between two descriptors of length one; cosine distance 5e-7.
TOLERANCE = 1e-3
MAX_BYTES = 2_000_000_000  # size limit of one ONNX file


def export_onnx(encoder: Encoder, file: Path | str) -> float:
    """Write `file` atomically, and only if onnxruntime computes the same descriptors from it as
    torch.

    The input `images` is uint8 (batch, height, width, 3), red-green-blue. The output `descriptors`
    is float32 (batch, dimensions). Batch, height and width are free.

    Returns the length of the largest difference between a descriptor of onnxruntime and torch's. It
    is measured on images of two sizes, one and three at a time, and must not exceed `TOLERANCE`.
    """
    file = check_file(file)
    with progress_bar("exporting", 2) as advance:
        content = to_onnx(encoder)
        advance(1)
        worst = _compare(encoder, content)
        advance(1)
    if not worst <= TOLERANCE:
        raise BadInputError(
            f"{file}: not written because onnxruntime's descriptors differ from torch's by"
            f" {worst:.2g}, expected at most {TOLERANCE:g}"
        )
    write_atomically(file, lambda stream: stream.write(content))
    return worst


def check_file(file: Path | str) -> Path:
    """Raise if an encoder cannot be exported to `file`; return it as a path."""
    require("onnx", "onnxscript", "onnxruntime")
    if Path(file).suffix != ".onnx":
        raise BadInputError(f"{file}: the name of an exported encoder must end in .onnx")
    if Path(file).is_dir():
        raise BadInputError(f"{file}: is a folder; give a file name")
    return Path(file)


def to_onnx(encoder: Encoder) -> bytes:
    """Content of the ONNX file, which passes ONNX's own checker."""
    import onnx

    encoder.check_ready()
    size = sum(tensor.nbytes for tensor in encoder.state_dict().values())
    if size > MAX_BYTES:
        raise BadInputError(
            f"the encoder has {size / 1e9:.1f} GB, but one ONNX file can have at most 2 GB"
        )
    model = _traced(encoder)
    facts = Facts(
        about=encoder.about, fingerprint=encoder.fingerprint, dimensions=encoder.dimensions
    )
    onnx.helper.set_model_props(model, {KEY: facts.to_text()})
    onnx.checker.check_model(model, full_check=True)
    return seal(model.SerializeToString())


def _traced(encoder: Encoder) -> Any:
    """The encoder as an ONNX model, without metadata about local source files."""
    copy = deepcopy(encoder).cpu().eval().requires_grad_(False)
    width, height = encoder.about.size
    images = torch.zeros(2, height, width, 3, dtype=torch.uint8)
    with quiet(), torch.no_grad():
        exported = torch.onnx.export(
            copy,
            (images,),
            dynamo=True,
            input_names=[IMAGES],
            output_names=[DESCRIPTORS],
            dynamic_shapes=(dict.fromkeys(range(3), torch.export.Dim.DYNAMIC),),
            verbose=False,
            # Optimizing would drop the 1e-12 of `unit`, so that zero vectors become NaN.
            optimize=False,
        )
    model: Any = exported.model_proto  # type: ignore[union-attr]
    graph = model.graph
    for part in (model, graph, *graph.node, *graph.initializer, *graph.input, *graph.output):
        part.ClearField("metadata_props")
    graph.ClearField("value_info")
    for length, name in zip(
        graph.input[0].type.tensor_type.shape.dim, ("batch", "height", "width"), strict=False
    ):
        length.dim_param = name
    graph.output[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    return model


@contextmanager
def quiet() -> Iterator[None]:
    """Context that hides the warnings of libraries, which concern their developers."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _compare(encoder: Encoder, content: bytes) -> float:
    """Length of the largest difference between a descriptor of torch, in float32, and of
    onnxruntime.
    """
    from mappable.features.onnx_encoder import open_session

    session = open_session(content)
    copy = deepcopy(encoder).cpu()
    worst = 0.0
    width, height = encoder.about.size
    for size in (encoder.about.size, (width + width // 2, height + height // 4)):
        for count in (1, 3):
            images = _pictures(count, size)
            with torch.no_grad(), backbone_precision("cpu", "float32"):
                ours = copy(torch.from_numpy(images)).numpy()
            (theirs,) = session.run([DESCRIPTORS], {IMAGES: images})
            # np.maximum keeps NaN.
            worst = float(np.maximum(worst, np.linalg.norm(ours - theirs, axis=1).max()))
    return worst


def _pictures(count: int, size: Size) -> Pixels:
    """Random images (count, height, width, 3) with areas and edges, similar to photos."""
    random = np.random.default_rng(0)
    pictures = np.empty((count, size[1], size[0], 3), dtype=np.uint8)
    for picture in pictures:
        for cells, resampling in ((8, Image.Resampling.BICUBIC), (20, Image.Resampling.NEAREST)):
            coarse = Image.fromarray(random.integers(0, 256, (cells, cells, 3), dtype=np.uint8))
            picture[:] = picture // 2 + np.asarray(coarse.resize(size, resampling)) // 2
    return pictures
