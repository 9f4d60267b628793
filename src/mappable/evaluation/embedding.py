"""Step one of an evaluation: compute descriptors of all images that the protocols need, one file per model."""

import hashlib
import sys
from pathlib import Path
from typing import IO

import numpy as np

from mappable.arrays import Ints
from mappable.checksums import DIGITS, digest_of_file
from mappable.checksums import digest as checksum_of
from mappable.errors import BadInputError
from mappable.evaluation.scoring import Descriptors
from mappable.features.activations import frozen_activations
from mappable.features.embedding import Precision, describe
from mappable.features.encoder import Encoder
from mappable.features.inputs import HostInputs, Inputs
from mappable.files import write_text
from mappable.places.pixels import Images, blocks
from mappable.progress import progress_bar

SUFFIX = ".f16"
AT_ONCE = 256  # images per write, so an interrupted run loses at most this many


def image_digest(images: Images, rows: Ints) -> str:
    """16 hex digits that change with any image of `rows`."""
    digest = hashlib.sha256(rows.tobytes())
    for pixels in blocks(images.take(rows)):
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
    """Descriptors of the images of `rows` (ascending), read from the folder or computed into it, in half precision.

    The file name depends on the encoder and on the `digest` of the images. Files of another model or of changed images
    are therefore never used; they are deleted. An interrupted run resumes where it stopped. `activations` is the
    folder for activations of frozen layers, if the encoder has any.
    """
    facts = f"{encoder.fingerprint} {digest} {encoder.dimensions}".encode() + rows.tobytes()
    key = hashlib.sha256(facts).hexdigest()[:16]
    file = folder / f"{key}{SUFFIX}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for other in folder.glob(f"*{SUFFIX}*"):
            if not other.name.startswith(key):
                other.unlink()
        checksum = _checksum_file(file)
        if file.is_file() and checksum.is_file() and checksum.read_bytes() != digest_of_file(file).encode():
            print(f"note: {file}: damaged; its descriptors are computed again", file=sys.stderr)
            file.unlink()
        if not file.is_file():
            _write(file, encoder, images, rows, precision, activations)
        values = np.memmap(file, dtype=np.float16, mode="r").reshape(-1, encoder.dimensions)
    except OSError as error:
        raise BadInputError(f"{file}: cannot be written ({(error.strerror or str(error)).lower()})") from None
    except ValueError:
        values = np.empty((0, 0), dtype=np.float16)
    if len(values) != len(rows):
        raise BadInputError(f"{file}: damaged; delete it and run again to compute it")
    return Descriptors(rows, values, encoder.fingerprint, digest)


def _write(
    file: Path, encoder: Encoder, images: Images, rows: Ints, precision: Precision, activations: Path | None
) -> None:
    """Append blocks to a partial file, which gets its final name when it is complete.

    A file beside it has a checksum per block, so that a run that continues keeps no damaged block.
    """
    partial = file.with_suffix(f"{SUFFIX}.part")
    sums = Path(f"{partial}.xxh3")
    wanted = images.take(rows)
    frozen = encoder.about.settings.get("trainable", "all") != "all"
    inputs: Inputs = HostInputs(wanted)
    if frozen:
        inputs = frozen_activations(encoder, wanted, device=encoder.device, precision=precision, folder=activations)
    with (
        partial.open("a+b") as stream,
        sums.open("a+b") as checksums,
        progress_bar("describing images", len(rows)) as advance,
    ):
        size = 2 * encoder.dimensions * AT_ONCE
        done = _undamaged_blocks(stream, checksums, size)
        stream.truncate(size * done)
        checksums.truncate(DIGITS * done)
        advance(AT_ONCE * done)
        for start in range(AT_ONCE * done, len(rows), AT_ONCE):
            some = np.arange(start, min(start + AT_ONCE, len(rows)))
            network = encoder.upper if frozen else encoder
            found = describe(
                network,
                inputs,
                some,
                device=encoder.device,
                precision=precision,
                gather="cpu",
            )
            content = found.numpy().astype(np.float16).tobytes()
            for opened, data in ((stream, content), (checksums, checksum_of(content).encode())):
                opened.write(data)
                opened.flush()
            advance(len(some))
    write_text(_checksum_file(file), digest_of_file(partial))
    partial.replace(file)
    sums.unlink()


def _undamaged_blocks(stream: IO[bytes], checksums: IO[bytes], size: int) -> int:
    """The number of complete blocks from the start of a file that match their checksums."""
    stream.seek(0)
    checksums.seek(0)
    count = 0
    while len(block := stream.read(size)) == size and checksum_of(block).encode() == checksums.read(DIGITS):
        count += 1
    return count


def _checksum_file(file: Path) -> Path:
    return file.with_suffix(f"{SUFFIX}.xxh3")
