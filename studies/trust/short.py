"""The short form of all harnesses, for `make test`: a few seconds each, on a smaller made-up set."""

import time
from pathlib import Path

from trust import damage, full, fuzz, kills, requests, soak, tiny
from trust.counters import Counters
from trust.processes import preload

COMMANDS = ("convert", "map add")
SUBJECTS = ("places.parquet", "images.npy", "encoder.safetensors", "map: descriptors")


def run_short(out: Path) -> dict[str, Counters]:
    """Run every harness for a moment; returns the counters per part."""
    preload()
    base = tiny.make_base(out / "base", short=True)
    found = {
        part: Counters(out / f"{part}.json")
        for part in ("kill", "pairs", "damage", "fuzz", "http", "full", "soak")
    }
    kills.run_kills(base, out, found["kill"], 2, COMMANDS, each=False)
    kills.run_pairs(base, out, found["pairs"], 1, ["map add"])
    damage.run_damages(base, out, found["damage"], 6, SUBJECTS)
    full.run_full(base, out, found["full"], 1, ["places split"])
    present = [name for name in fuzz.TARGETS if fuzz.has_seed(fuzz.TARGETS[name], base)]
    fuzz.run_fuzz(base, found["fuzz"], 0, slice_seconds=0.02, names=present)
    requests.run_document(base, out, found["http"], 40, served="map")
    soak.run_soak(base, out, found["soak"], 0.5, served="map")
    return found


def main(out: Path) -> int:
    """Print what was tried and what failed; the exit status is 1 if anything failed."""
    begin = time.monotonic()
    failed = 0
    for part, counters in run_short(out).items():
        tried = counters.total("hit" if part == "kill" else "tried")
        print(f"{part}: {tried} tried, {counters.total('failed')} failed", flush=True)
        failed += counters.total("failed") + (tried == 0)
        for name, kind in counters.kinds.items():
            for failure in kind["failures"]:
                print(f"FAILED {part}, {name}: {failure}")
    print(f"{time.monotonic() - begin:.1f} s")
    return 1 if failed else 0
