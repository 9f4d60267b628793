"""Metrics of a training run as JSON lines, and for TensorBoard if asked."""

import json
from pathlib import Path
from typing import Any

from mappable.errors import BadInputError
from mappable.files import write_atomically

METRICS = "metrics.jsonl"


class Metrics:
    """Appends one JSON object a line to `folder`/metrics.jsonl; of an earlier run it keeps the lines up to `iteration`.

    Without a folder nothing is written.
    """

    def __init__(self, folder: Path | None, *, iteration: int = 0, tensorboard: bool = False) -> None:
        self.file = folder / METRICS if folder else None
        self.board = _board(folder, iteration) if folder and tensorboard else None
        if self.file:
            kept = (
                [line for line in _lines(self.file) if json.loads(line)["iteration"] <= iteration] if iteration else []
            )
            write_atomically(self.file, lambda stream: stream.writelines(kept))
            self.stream = self.file.open("ab")

    def __enter__(self) -> "Metrics":
        return self

    def __exit__(self, *error: object) -> None:
        if self.file:
            self.stream.close()
        if self.board:
            self.board.close()

    def write(self, iteration: int, **values: float) -> None:
        """One line: the iteration, counted from 1 (0 is before the first), and what is known of it."""
        if self.file:
            self.stream.write(json.dumps({"iteration": iteration} | values).encode() + b"\n")
            self.stream.flush()
        if self.board:
            for name, value in values.items():
                self.board.add_scalar(name, value, iteration)


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """What a run wrote, line by line; a last line that was cut off is left out."""
    file, found = folder / METRICS, []
    for number, line in enumerate(_lines(file), 1):
        try:
            found.append(dict(json.loads(line)))
        except (ValueError, TypeError, RecursionError):
            raise BadInputError(f"{file}, row {number}: damaged; train again with --overwrite") from None
    return found


def _lines(file: Path) -> list[bytes]:
    """The whole lines of a file that may have been cut off."""
    if not file.is_file():
        return []
    *whole, _torn = file.read_bytes().split(b"\n")
    return [line + b"\n" for line in whole]


def check_tensorboard() -> None:
    """Refuse where TensorBoard is not installed."""
    try:
        import torch.utils.tensorboard  # noqa: F401
    except ImportError:
        what = "TensorBoard is not installed; install it with: pip install 'mappable[tensorboard]'"
        raise BadInputError(what) from None


def _board(folder: Path, iteration: int) -> Any:
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(folder / "tensorboard"), purge_step=iteration + 1 if iteration else 0)
