"""Counters of a harness in a JSON file: a run that is stopped adds up with the next one."""

import json
from pathlib import Path
from typing import Any


class Counters:
    """Numbers and failures per kind. `save` replaces the file."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.kinds: dict[str, dict[str, Any]] = (
            json.loads(file.read_text()) if file.exists() else {}
        )

    def of(self, kind: str) -> dict[str, Any]:
        return self.kinds.setdefault(kind, {"failures": []})

    def get(self, kind: str, name: str) -> int:
        return int(self.of(kind).get(name, 0))

    def add(self, kind: str, name: str, number: int = 1) -> None:
        self.of(kind)[name] = self.get(kind, name) + number

    def fail(self, kind: str, failure: str) -> None:
        self.of(kind)["failures"].append(failure)
        self.add(kind, "failed")

    def total(self, name: str) -> int:
        return sum(int(kind.get(name, 0)) for kind in self.kinds.values())

    def save(self) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.file.with_suffix(".tmp")
        temporary.write_text(json.dumps(self.kinds, indent=1))
        temporary.replace(self.file)
