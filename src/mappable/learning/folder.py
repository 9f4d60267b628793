"""The folder of a training run: decide whether to resume, refuse or begin anew."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from mappable.errors import BadInputError
from mappable.features.encoder import Encoder
from mappable.features.files import ENCODER
from mappable.files import write_atomically
from mappable.learning.checkpoint import CHECKPOINT, Checkpoint
from mappable.learning.metrics import METRICS
from mappable.learning.settings import Settings, settings_to_yaml, with_defaults

SETTINGS = "settings.yaml"
# What a run may change when it goes on: the weights do not depend on the former, and only by rounding on the latter.
WATCHING = frozenset({"checkpoint_every", "checkpoint_seconds", "monitor_every", "monitor_queries", "landmarks"})
DIVIDING = frozenset({"micro_batch", "batch_size"})
Loaded = TypeVar("Loaded")


class OtherRunError(BadInputError):
    """The folder holds a run with other settings or of other images, or one that cannot be read."""


def look_into(folder: Path, settings: Settings, data: str) -> tuple[Encoder | None, Checkpoint | None]:
    """The finished encoder or the last checkpoint of this very run, if the folder has one."""
    encoder, checkpoint = folder / ENCODER, folder / CHECKPOINT
    if encoder.exists():
        finished = _read(Encoder.load, encoder)
        _check_same(encoder, finished.about.settings, finished.about.data, settings, data)
        return finished, None
    if checkpoint.exists():
        found = _read(Checkpoint.load, checkpoint)
        _check_same(checkpoint, found.about["settings"], found.about["data"], settings, data)
        return None, found
    return None, None


def _read(load: Callable[[Path], Loaded], file: Path) -> Loaded:
    try:
        return load(file)
    except BadInputError as error:
        raise OtherRunError(f"{error}; begin anew with --overwrite") from None


def _check_same(file: Path, before: Any, data_before: str, settings: Settings, data: str) -> None:
    now = json.loads(settings.model_dump_json())
    before = with_defaults(before)
    differing = [key for key in now if key not in WATCHING | DIVIDING and before[key] != now[key]]
    if differing:
        values = ", ".join(f"{key} {before[key]!r} (now {now[key]!r})" for key in differing)
        raise OtherRunError(f"{file}: was made with {values}; use the same settings, or begin anew with --overwrite")
    if data_before != data:
        raise OtherRunError(f"{file}: was made of other training images; use the same, or begin anew with --overwrite")


def prepare(folder: Path, settings: Settings, *, anew: bool) -> None:
    """Write the settings down; of another run that the folder held nothing is left if this one begins `anew`."""
    if anew:
        (folder / ENCODER).unlink(missing_ok=True)
        (folder / CHECKPOINT).unlink(missing_ok=True)
    text = settings_to_yaml(settings).encode()
    write_atomically(folder / SETTINGS, lambda stream: stream.write(text))
    _remove_torn(folder)


def tidy(folder: Path) -> None:
    """The encoder is there: what was kept for going on is needed no more."""
    (folder / CHECKPOINT).unlink(missing_ok=True)
    _remove_torn(folder)


def _remove_torn(folder: Path) -> None:
    """Remove what a process was just writing when it was killed."""
    for name in (ENCODER, CHECKPOINT, SETTINGS, METRICS):
        for torn in folder.glob(f".{name}.*"):
            torn.unlink()
