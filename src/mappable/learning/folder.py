"""The folder of a training run: decide whether to resume, to refuse, or to start again."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from mappable.errors import BadInputError, shown
from mappable.features.encoder import Encoder
from mappable.features.files import ENCODER
from mappable.files import write_atomically
from mappable.learning.checkpoint import CHECKPOINT, Checkpoint
from mappable.learning.metrics import METRICS
from mappable.learning.settings import Settings, settings_to_yaml, with_defaults

SETTINGS = "settings.yaml"
# Settings that do not change the weights.
WATCHING = frozenset({"checkpoint_every", "monitor_every", "landmarks"})
Loaded = TypeVar("Loaded")


class OtherRunError(BadInputError):
    """The folder contains a run with other settings or other images, or a run that cannot be read."""


def look_into(
    folder: Path, settings: Settings, data: str
) -> tuple[Encoder | None, Checkpoint | None]:
    """Return the finished encoder or the last checkpoint of this same run, if the folder contains
    one.

    If `overwrite` replaces a run, its encoder stays until the new one is finished. So next to the
    checkpoint of this run there may be the encoder of another run, which is ignored.
    """
    encoder, file = folder / ENCODER, folder / CHECKPOINT
    if encoder.exists():
        try:
            finished = _read(Encoder.load, encoder)
            _check_same(encoder, finished.about.settings, finished.about.data, settings, data)
            return finished, None
        except OtherRunError:
            if not file.exists():
                raise
    if file.exists():
        checkpoint = _read(Checkpoint.load, file)
        _check_same(file, checkpoint.about["settings"], checkpoint.about["data"], settings, data)
        return None, checkpoint
    return None, None


def ended_before(folder: Path, checkpoint: Checkpoint) -> Encoder | None:
    """The encoder that the run made when its time ran out at the checkpoint, if there is one."""
    if not (folder / ENCODER).exists():
        return None
    encoder = _read(Encoder.load, folder / ENCODER)
    same = encoder.about.data == checkpoint.about["data"]
    return (
        encoder
        if same and encoder.about.settings.get("iterations") == checkpoint.iteration
        else None
    )


def _read(load: Callable[[Path], Loaded], file: Path) -> Loaded:
    try:
        return load(file)
    except BadInputError as error:
        raise OtherRunError(f"{error}; start again with --overwrite") from None


def _check_same(file: Path, before: Any, data_before: str, settings: Settings, data: str) -> None:
    now = json.loads(settings.model_dump_json())
    before = with_defaults(before)
    different = [key for key in now if key not in WATCHING and before[key] != now[key]]
    if different:
        values = ", ".join(
            f"{key} {shown(before[key])} (now {shown(now[key])})" for key in different
        )
        raise OtherRunError(
            f"{file}: trained with {values}; use the same settings, or start again with --overwrite"
        )
    if data_before != data:
        raise OtherRunError(
            f"{file}: trained on other training images; use the same images, or start again with"
            " --overwrite"
        )


def prepare(folder: Path, settings: Settings, *, anew: bool) -> None:
    """Write the settings. If this run starts `anew`, first delete the checkpoint of an earlier run.

    The encoder of an earlier run stays until the new encoder replaces it.
    """
    if anew:
        (folder / CHECKPOINT).unlink(missing_ok=True)
    text = settings_to_yaml(settings).encode()
    write_atomically(folder / SETTINGS, lambda stream: stream.write(text))
    _remove_torn(folder)


def remove_checkpoint(folder: Path) -> None:
    """Delete the checkpoint, which a finished run does not need."""
    (folder / CHECKPOINT).unlink(missing_ok=True)
    _remove_torn(folder)


def _remove_torn(folder: Path) -> None:
    """Delete partly written files of a process that was killed."""
    for name in (ENCODER, CHECKPOINT, SETTINGS, METRICS):
        for partial in folder.glob(f".{name}.*"):
            partial.unlink()
