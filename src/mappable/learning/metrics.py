"""Write and read the metrics of a training run, one JSON object per line."""

import json
from pathlib import Path
from typing import Any

from mappable.containers import parse_json
from mappable.errors import BadInputError
from mappable.files import write_atomically, writing

METRICS = "metrics.jsonl"


class Metrics:
    """Appends one JSON object per line to `folder`/metrics.jsonl. Without a folder it writes
    nothing.

    Lines up to `iteration` are kept from an earlier part of the run; later lines are deleted.
    """

    def __init__(self, folder: Path | None, *, iteration: int = 0) -> None:
        self.file = folder / METRICS if folder else None
        if self.file:
            lines = (
                zip(_lines(self.file), read_metrics(self.file.parent), strict=True)
                if iteration
                else ()
            )
            kept = [line for line, values in lines if values.get("iteration", 0) <= iteration]
            write_atomically(self.file, lambda stream: stream.writelines(kept))
            self.stream = self.file.open("ab")

    def __enter__(self) -> "Metrics":
        return self

    def __exit__(self, *error: object) -> None:
        if self.file:
            with writing(self.file):
                self.stream.close()

    def write(self, iteration: int, **values: float) -> None:
        """Write one line: the iteration, counted from 1 (0 is before the first), and its values."""
        if self.file:
            with writing(self.file):
                self.stream.write(json.dumps({"iteration": iteration} | values).encode() + b"\n")
                self.stream.flush()


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """Read the metrics of a run, one dictionary per line. An incomplete last line is skipped."""
    file, metrics = folder / METRICS, []
    for number, line in enumerate(_lines(file), 1):
        try:
            metrics.append(dict(parse_json(line)))
        except (ValueError, TypeError):
            raise BadInputError(
                f"{file}, row {number}: damaged; train again with --overwrite"
            ) from None
    return metrics


def _lines(file: Path) -> list[bytes]:
    """The complete lines of a file whose last line may be incomplete."""
    if not file.is_file():
        return []
    *complete, _incomplete = file.read_bytes().split(b"\n")
    return [line + b"\n" for line in complete]
