"""The folder of a run: what it holds already, whether we may go on with that, and a tidy place to begin in."""

import json
from pathlib import Path
from typing import Any

from mappable.errors import BadInputError
from mappable.features.encoder import Encoder
from mappable.learning.checkpoint import CHECKPOINT, Checkpoint
from mappable.learning.settings import Settings, settings_to_yaml
from mappable.places.files import write_atomically

ENCODER, SETTINGS = "encoder.safetensors", "settings.yaml"
# No weight depends on these.
WATCHING = frozenset({"checkpoint_every", "monitor_every", "monitor_queries", "landmarks"})


class OtherRunError(BadInputError):
    """The folder holds a run with other settings or of other images."""


def look_into(
    folder: Path, settings: Settings, data: str, resume: bool, overwrite: bool
) -> tuple[Encoder | None, Checkpoint | None]:
    """The finished encoder or the last checkpoint of this very run, if the folder has one and we are to go on."""
    encoder, checkpoint = folder / ENCODER, folder / CHECKPOINT
    if not encoder.exists() and not checkpoint.exists():
        return None, None
    if overwrite:
        encoder.unlink(missing_ok=True)
        checkpoint.unlink(missing_ok=True)
        return None, None
    if not resume:
        what = "a trained encoder" if encoder.exists() else "a run that was stopped"
        raise BadInputError(
            f"{folder}: holds {what}; go on with --resume, begin anew with --overwrite, or choose another"
        )
    if encoder.exists():
        finished = Encoder.load(encoder)
        _check_same(encoder, finished.about.settings, finished.about.data, settings, data)
        return finished, None
    found = Checkpoint.load(checkpoint)
    _check_same(checkpoint, found.about["settings"], found.about["data"], settings, data)
    return None, found


def _check_same(file: Path, before: Any, data_before: str, settings: Settings, data: str) -> None:
    now = json.loads(settings.model_dump_json())
    differing = [key for key in now if key not in WATCHING and before.get(key) != now[key]]
    if differing:
        values = ", ".join(f"{key} {before.get(key)!r} (now {now[key]!r})" for key in differing)
        raise OtherRunError(f"{file}: was made with {values}; use the same settings, or begin anew with --overwrite")
    if data_before != data:
        raise OtherRunError(f"{file}: was made of other training images; use the same, or begin anew with --overwrite")


def prepare(folder: Path, settings: Settings) -> None:
    """Write the settings down, and remove what a process was just writing when it was killed."""
    text = settings_to_yaml(settings).encode()
    write_atomically(folder / SETTINGS, lambda stream: stream.write(text))
    for torn in folder.glob(".*.safetensors.*"):
        torn.unlink()
