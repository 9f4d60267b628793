"""Run the harnesses at full length, print the tables of the README, and exit with 1 if anything is wrong.

python studies/trust [PART...] [--out FOLDER]    # parts: kill, pairs, damage, fuzz, guided, http, full, soak
"""

import argparse
import os
import signal
import sys
import time
from importlib.util import find_spec
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "tests")]
for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[threads] = "1"

from mappable.locks import alone_in  # noqa: E402
from trust import (  # noqa: E402
    damage,
    full,
    fuzz,
    guided,
    kills,
    requests,
    short,
    soak,
    table,
    tiny,
)
from trust.commands import COMMANDS  # noqa: E402
from trust.counters import Counters  # noqa: E402
from trust.processes import preload  # noqa: E402

PARTS = ("damage", "fuzz", "guided", "http", "soak", "pairs", "full", "kill")
HITS, PAIRS, DAMAGES, INPUTS, GUIDED, EXAMPLES, FULL = 55, 4, 90, 100_000, 20_000, 200, 3
SOAK = 1200.0  # seconds


def main() -> int:
    """Run the parts; partial runs add up in the JSON files of the folder."""
    parser = argparse.ArgumentParser(prog="trust")
    parser.add_argument("parts", nargs="*", help=f"parts to run: {', '.join(PARTS)} (default: all)")
    parser.add_argument(
        "--out", type=Path, default=Path("trust"), help="folder of counters and work files"
    )
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="stop each part after this many seconds"
    )
    parser.add_argument(
        "--only", default="", help="commands to kill, separated by commas (default: all)"
    )
    parser.add_argument(
        "--short", action="store_true", help="run the short form, in under a minute"
    )
    parser.add_argument(
        "--table",
        action="store_true",
        help="print the tables of the counters in --out, run nothing",
    )
    given = parser.parse_args()
    if given.short:
        return short.main(given.out.resolve())
    names = given.only.split(",") if given.only else list(COMMANDS)
    unknown = {*given.parts} - {*PARTS}
    if unknown:
        parser.error(f"unknown part {', '.join(unknown)}, expected {', '.join(PARTS)}")
    out: Path = given.out.resolve()
    if given.table:
        print(table.table(out, list(COMMANDS)))
        return 0
    out.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that a server of ours ends, too
    preload()
    base = tiny.make_base(out / "base")
    damage.make_subjects(base)
    for part in given.parts or PARTS:
        with alone_in(out / f"work-{part}", f"running the part {part}"):
            run_part(part, base, out, names, given.seconds)
        print("\n".join(table.rows(out, part)), flush=True)
    print(table.table(out, list(COMMANDS)))
    return 1 if table.failures(out) else 0


def run_part(part: str, base: Path, out: Path, names: list[str], seconds: float) -> None:
    """Run one part until its counters are complete, or for some seconds."""
    until = time.monotonic() + seconds
    counters, work = Counters(out / f"{part}.json"), out / f"work-{part}"
    if part == "kill":
        kills.run_kills(base, work, counters, HITS, names, until=until)
    elif part == "pairs":
        kills.run_pairs(base, work, counters, PAIRS, names, until=until)
    elif part == "damage":
        damage.run_damages(base, work, counters, DAMAGES, until=until)
    elif part == "fuzz":
        fuzz.run_fuzz(base, counters, INPUTS, until=until)
    elif part == "guided":
        guided.run_guided(base, work, counters, GUIDED, until=until)
    elif part == "http":
        requests.run_document(base, work, counters, 2000)
        if find_spec("schemathesis"):
            requests.run_schemathesis(
                base, work, counters, EXAMPLES, seed=counters.get("schemathesis", "tried")
            )
    elif part == "full":
        full.run_full(base, work, counters, FULL, names, until=until)
    elif counters.of("memory").get("seconds", 0) < SOAK:
        soak.run_soak(base, work, counters, min(SOAK, seconds), pause=0.02)


if __name__ == "__main__":
    sys.exit(main())
