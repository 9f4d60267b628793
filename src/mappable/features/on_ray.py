"""Describe images on many machines with Ray Data: workers write shards, each exactly once."""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mappable.arrays import Floats32
from mappable.checksums import digest
from mappable.containers import read_npy
from mappable.errors import BadInputError, MappableError, install_extra, shown
from mappable.features.embedding import Precision
from mappable.features.fetching import is_reachable
from mappable.features.image_encoder import ImageEncoder
from mappable.features.opening import Backend, open_file
from mappable.files import write_atomically
from mappable.places.table import Places
from mappable.progress import progress_bar

SHARD = 1024  # images per shard, about; a multiple of the batch size
BATCH = 32  # default number of images per batch on a CPU, as without Ray
SECONDS = 1.0  # between two looks at the progress
LISTENS = 10.0  # seconds in which a cluster must accept a connection
MOST_PORTS = 65_535


@dataclass(frozen=True)
class Job:
    """What each worker needs. Paths must lead to the same files on every machine."""

    encoder: Path | str
    fingerprint: str
    places: Places
    folder: Path  # of the shards
    size: int  # images per shard
    device: str
    batch_size: int | None
    precision: Precision
    backend: Backend | None
    trust_code: bool

    @property
    def shards(self) -> int:
        """Number of shards."""
        return -(-len(self.places) // self.size)

    def file(self, shard: int) -> Path | None:
        """The file of a shard, whose name ends in the precision of its computation; None if there
        is none yet.
        """
        return next(self.folder.glob(f"{shard:06d}-*.npy"), None)


class Worker:
    """Describes the images of shards, one shard after the other; Ray runs one per CPU, or one per
    GPU.
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        self.encoder: ImageEncoder | None = None

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Write the shards with these numbers, unless they exist; the answer has an error per
        shard, or "".
        """
        return {
            "shard": batch["shard"],
            "error": np.array([self._written(int(shard)) for shard in batch["shard"]]),
        }

    def _written(self, shard: int) -> str:
        if self.job.file(shard):  # files are written atomically, so it is complete
            return ""
        try:
            self._write(shard)
        # A problem that the user can fix: repeating the work would not help.
        except MappableError as error:
            return str(error)
        return ""

    def _write(self, shard: int) -> None:
        job = self.job
        if self.encoder is None:
            self.encoder = open_file(
                job.encoder, job.device, job.backend, trust_code=job.trust_code
            )
            if self.encoder.fingerprint != job.fingerprint:
                found = (
                    f"is encoder {self.encoder.fingerprint} on a worker, expected {job.fingerprint}"
                )
                raise BadInputError(f"{job.encoder}: {found}; give a path that all machines share")
        rows = np.arange(shard * job.size, min((shard + 1) * job.size, len(job.places)))
        places = job.places[rows]
        descriptors = self.encoder.embed(
            places, batch_size=job.batch_size, precision=job.precision, progress=False
        )
        file = job.folder / f"{shard:06d}-{self.encoder.actual_precision(job.precision)}.npy"
        write_atomically(file, lambda stream: np.save(stream, descriptors))


def embed_on_ray(
    address: str,
    encoder: ImageEncoder,
    source: Path | str,
    places: Places,
    out: Path,
    *,
    device: str = "auto",
    batch_size: int | None = None,
    precision: Precision = "auto",
    backend: Backend | None = None,
    trust_code: bool = False,
) -> tuple[Floats32, str]:
    """Describe the images of places on a Ray cluster; return descriptors (n, D), mapped from a
    file, and the precision.

    `address` is "local" for a cluster of this machine alone, ray://HOST:10001, or HOST:6379 from a
    machine of the cluster. All machines must see the encoder's file `source`, the images and the
    folder `out` under the same paths.

    Each shard is a file that is written atomically under a fixed name. So a worker that is killed
    loses no image and doubles none: Ray gives its shard to another worker. A job that was stopped
    continues with the missing shards. They are in a folder `shards-...` of `out`, which nobody
    needs after that.
    """
    unit = BATCH if batch_size is None else batch_size
    size = unit * max(1, SHARD // unit)
    key = json.dumps(
        [encoder.fingerprint, precision, device, size, str(places.root), *places.path.tolist()]
    )
    folder = out.resolve() / f"shards-{digest(key.encode())[:16]}"
    folder.mkdir(parents=True, exist_ok=True)
    source = source if isinstance(source, str) else source.resolve()
    options = (device, batch_size, precision, backend, trust_code)
    job = Job(source, encoder.fingerprint, places, folder, size, *options)
    with _connected(address) as ray, progress_bar("describing images", len(places)) as advance:
        running, done = ray.remote(num_cpus=0)(run).remote(job), 0
        while not ray.wait([running], timeout=SECONDS)[0]:
            now = min(len(places), size * sum(1 for _ in folder.glob("[0-9]*.npy")))
            advance(now - done)
            done = now
        errors = ray.get(running)
        advance(len(places) - done)
    if errors:
        raise BadInputError(errors[0])
    return _joined(job, encoder.dimensions)


def _joined(job: Job, dimensions: int) -> tuple[Floats32, str]:
    files = [job.file(shard) for shard in range(job.shards)]
    if None in files:
        missing = f"shard {files.index(None)} is not on this machine"
        raise BadInputError(f"{job.folder}: {missing}; give a folder OUT that all machines share")
    found = [file for file in files if file]
    precisions = {file.stem.partition("-")[2] for file in found}
    if len(precisions) > 1:
        raise BadInputError(
            f"workers computed in {' and '.join(sorted(precisions))}: use machines of one kind"
        )
    shape = (len(job.places), dimensions)
    joined = np.lib.format.open_memmap(job.folder / "all.npy", "w+", np.float32, shape)
    for shard, file in enumerate(found):
        joined[shard * job.size : (shard + 1) * job.size] = read_npy(file)
    return joined, precisions.pop()


def run(job: Job) -> list[str]:
    """Run a job inside of the cluster; return the errors that the user can fix."""
    import ray
    import ray.data

    ray.data.DataContext.get_current().enable_progress_bars = False
    todo = [{"shard": shard} for shard in range(job.shards) if not job.file(shard)]
    if not todo:
        return []
    resources = ray.cluster_resources()
    gpus = 0 if job.device == "cpu" else int(resources.get("GPU", 0))
    workers = max(1, min(len(todo), gpus or int(resources.get("CPU", 1))))
    described = ray.data.from_items(todo, override_num_blocks=len(todo)).map_batches(
        Worker,
        fn_constructor_args=(job,),
        batch_size=1,
        compute=ray.data.ActorPoolStrategy(size=workers),
        num_gpus=1 if gpus else None,
        num_cpus=None if gpus else 1,
    )
    return [row["error"] for row in described.iter_rows() if row["error"]]


@contextmanager
def _connected(address: str) -> Iterator[Any]:
    """The package ray, connected to a cluster."""
    _check_address(address)
    try:
        import ray
        import ray.data
    except ImportError:
        raise BadInputError(f"--on needs Ray; {install_extra('ray')}") from None
    try:
        if address == "local":
            ray.init(
                "local", include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR
            )
        else:
            ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError) as error:
        cause = " ".join(str(error).split())[:200]
        raise _no_cluster(address, cause) from None
    try:
        yield ray
    except ray.exceptions.RayError as error:
        cause = " ".join(str(error).split())[-200:]
        raise MappableError(
            f"{address}: Ray failed ({cause}); run the command again: it continues"
        ) from None
    finally:
        ray.shutdown()


def _check_address(address: str) -> None:
    """Raise if nobody listens at the address: Ray itself would try for minutes."""
    if address == "local":
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal() or int(port) > MOST_PORTS:
        raise BadInputError(
            f"--on is {shown(address)}, expected local, ray://HOST:10001 or HOST:6379"
        )
    if not is_reachable(f"ray://{host}:{port}", LISTENS):
        raise _no_cluster(address, "no connection")


def _no_cluster(address: str, cause: str) -> BadInputError:
    return BadInputError(
        f"{address}: no Ray cluster answers ({cause}); start one with `ray start --head`"
    )
