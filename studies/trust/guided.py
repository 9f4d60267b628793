"""Inputs chosen by code coverage (atheris, libFuzzer), for the readers of text and JSON.

Each target runs in its own process, because libFuzzer does not return. Without atheris, this part
is skipped.
"""

import json
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

# This file is also a program.
sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "tests")]

from trust.counters import Counters  # noqa: E402

TARGETS = (
    *(
        "manifest.csv",
        "manifest in degrees",
        "kitti poses",
        "tum trajectory",
        "tum list",
        "robotcar ins.csv",
    ),
    *(
        "msls raw.csv",
        "track .gpx",
        "track .csv",
        "ranges.csv",
        "anchors.csv",
        "truth.txt",
        "settings.yaml",
    ),
    *("map.json", "pack.json", "result.json", "places.csv.json", "multipart body", "field known"),
)
CHUNK = 1000  # inputs per process


def run_guided(
    base: Path, work: Path, counters: Counters, inputs: int, until: float = float("inf")
) -> None:
    """Run libFuzzer on all targets in turn; its corpus stays in `work` for the next run."""
    if find_spec("atheris") is None:
        counters.of("all")["skipped"] = "atheris is not installed"
        counters.save()
        return
    while counters.total("tried") < inputs and time.monotonic() < until:
        for name in TARGETS:
            corpus, report = work / name.replace(" ", "-"), work / "report.json"
            corpus.mkdir(parents=True, exist_ok=True)
            report.unlink(missing_ok=True)
            seed = counters.get(name, "tried") + 1
            command = [sys.executable, __file__, name, base, report, corpus]
            flags = [
                f"-runs={CHUNK}",
                f"-seed={seed}",
                "-rss_limit_mb=4000",
                "-timeout=20",
                f"-artifact_prefix={work}/",
            ]
            ended = subprocess.run(
                [*map(str, command), *flags], capture_output=True, text=True, check=False
            )
            found = (
                json.loads(report.read_text()) if report.exists() else {"tried": 0, "failures": []}
            )
            counters.add(name, "tried", found["tried"])
            for failure in found["failures"]:
                counters.fail(name, failure)
            if ended.returncode or not found["tried"]:
                counters.fail(name, f"exit {ended.returncode}: {ended.stderr[-400:]}")
            counters.save()
            if counters.total("tried") >= inputs or time.monotonic() > until:
                break


def main() -> None:
    """One target in this process: NAME BASE REPORT CORPUS FLAG..."""
    import atexit
    import os
    import shutil
    import warnings

    import atheris

    name, base, report = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    with atheris.instrument_imports(include=["mappable"], enable_loader_override=False):
        import mappable.readers.registry
        import mappable.recovery.files
        import mappable.service.app  # noqa: F401 - imported here, so that it is instrumented
        from trust import fuzz
    target, state = fuzz.TARGETS[name], {"tried": 0, "failures": []}
    warnings.simplefilter("ignore")
    # Not a temporary folder, because libFuzzer does not return and would leave it behind.
    folder = report.parent / "in"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    file = target.seed(base, folder)
    seed = Path(sys.argv[4]) / "seed"
    if not seed.exists():
        seed.write_bytes(file.read_bytes())

    def save() -> None:
        report.write_text(json.dumps(state))

    def one(data: bytes) -> None:
        wrong = fuzz.try_input(target, base, folder, file, data)
        state["tried"] += 1
        if wrong:
            state["failures"].append(f"{wrong}, input {data[:2000]!r}")
        if wrong or state["tried"] % 100 == 0:
            save()

    atexit.register(save)
    atheris.Setup([sys.argv[0], *sys.argv[4:]], one)
    try:
        atheris.Fuzz()
    except SystemExit:
        save()
    os._exit(0)


if __name__ == "__main__":
    main()
