"""Descriptors of all images that the protocols need, one file per model."""

import hashlib
import sys
from pathlib import Path

import numpy as np

from mappable.arrays import Ints
from mappable.checksums import digest_of_file
from mappable.errors import BadInputError
from mappable.evaluation.scoring import Descriptors
from mappable.features.activations import frozen_activations
from mappable.features.embedding import Precision, describe
from mappable.features.encoder import Encoder
from mappable.features.inputs import HostInputs, Inputs
from mappable.files import write_text
from mappable.places.pixels import Images, blocks
from mappable.progress import progress_bar

AT_ONCE = 256  # images


def image_digest(images: Images) -> str:
    """16 hex digits that change with any image."""
    digest = hashlib.sha256()
    for pixels in blocks(images):
        digest.update(pixels.tobytes())
    return digest.hexdigest()[:16]


def load_descriptors(
    encoder: Encoder,
    images: Images,
    rows: Ints,
    digest: str,
    folder: Path,
    *,
    precision: Precision = "auto",
    activations: Path | None = None,
) -> Descriptors:
    """Descriptors of the images of `rows` (ascending), read from the folder or computed into it, in
    half precision.

    The file name depends on the encoder and on the `digest` of the images. Files of another model
    or of changed images are therefore never used; they are deleted. `activations` is the folder for
    activations of frozen layers, if the encoder has any.
    """
    facts = f"{encoder.fingerprint} {digest} {encoder.dimensions}".encode() + rows.tobytes()
    file = folder / f"{hashlib.sha256(facts).hexdigest()[:16]}.npy"
    checksum = file.with_suffix(".xxh3")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for other in folder.iterdir():
            if other not in (file, checksum):
                other.unlink()
        if file.is_file() and not (
            checksum.is_file() and checksum.read_bytes() == digest_of_file(file).encode()
        ):
            print(f"note: {file}: damaged; its descriptors are computed again", file=sys.stderr)
            file.unlink()
        if not file.is_file():
            partial = file.with_suffix(".part")
            _write(partial, encoder, images.take(rows), precision, activations)
            write_text(checksum, digest_of_file(partial))
            partial.replace(file)
        values = np.load(file, mmap_mode="r")
    except OSError as error:
        raise BadInputError(
            f"{file}: cannot be written ({(error.strerror or str(error)).lower()})"
        ) from None
    return Descriptors(rows, values, encoder.fingerprint, digest)


def _write(
    file: Path, encoder: Encoder, images: Images, precision: Precision, activations: Path | None
) -> None:
    """Write the descriptors of the images as an array of NumPy."""
    frozen = encoder.about.settings.get("trainable", "all") != "all"
    inputs: Inputs = HostInputs(images)
    if frozen:
        inputs = frozen_activations(
            encoder, images, device=encoder.device, precision=precision, folder=activations
        )
    network = encoder.upper if frozen else encoder
    count = len(images)
    values = np.lib.format.open_memmap(
        file, mode="w+", dtype=np.float16, shape=(count, encoder.dimensions)
    )
    with progress_bar("describing images", count) as advance:
        for start in range(0, count, AT_ONCE):
            some = np.arange(start, min(start + AT_ONCE, count))
            described = describe(
                network, inputs, some, device=encoder.device, precision=precision, gather="cpu"
            )
            values[some] = described.numpy()
            advance(len(some))
    values.flush()
