"""An encoder in int8: offered only if it locates held-out images as well as in float32, or nearly."""

from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from mappable.arrays import Ints
from mappable.errors import BadInputError
from mappable.features.onnx_encoder import OnnxEncoder
from mappable.features.onnx_export import check_file
from mappable.features.onnx_int8 import to_int8, with_accuracy
from mappable.files import write_atomically
from mappable.learning.monitor import Monitor
from mappable.places.pixels import AnyImages, images_of
from mappable.places.table import Places

LEAST = 10  # images to measure ranges on, and to ask about
MOST = 500  # images to ask about; of more, some are taken evenly
LANDMARKS = 200  # at most


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
    if min(len(references), len(queries)) < LEAST or count < LEAST:
        few = f"{min(count, len(references)):,} images to measure ranges on and {len(queries):,} to ask about"
        raise BadInputError(f"there are {few}, but int8 needs at least {LEAST} of each")
    usual = min(int(encoder.about.settings.get("landmarks", LANDMARKS)), len(references))
    monitor = Monitor(places[references], places[queries], landmarks=usual, radius=right)
    sample = references[_evenly(len(references), count)]
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
    return references, queries[_evenly(len(queries), MOST)]


def _evenly(available: int, count: int) -> Ints:
    return np.unique(np.linspace(0, available - 1, min(count, available)).astype(np.int64))


def _opened(content: bytes) -> OnnxEncoder:
    with TemporaryDirectory(prefix="mappable-") as folder:
        file = Path(folder) / "encoder.onnx"
        file.write_bytes(content)
        return OnnxEncoder(file)
