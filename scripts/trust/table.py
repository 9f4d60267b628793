"""The table of docs/trust.md, from the counters of a run."""

from pathlib import Path

from trust.counters import Counters
from trust.soak import growth

PARTS = {
    "kill": "kills that hit / not survived",
    "pairs": "two commands at once / wrong",
    "damage": "damages / silent or escaped",
    "fuzz": "inputs / escaped",
    "guided": "inputs chosen by coverage / escaped",
    "http": "requests from the OpenAPI document / wrong",
    "full": "full disks and file limits met / wrong",
    "soak": "requests of the soak / wrong",
}
COUNTED = {"kill": "hit", "full": "met"}


def row(part: str, counters: Counters) -> str:
    """One row: what was tried, how often, and how often it failed."""
    tried, failed = counters.total(COUNTED.get(part, "tried")), counters.total("failed")
    more = ""
    if part == "kill":
        least = min((kind.get("hit", 0) for kind in counters.kinds.values()), default=0)
        more = f"; at least {least} per command, {len(counters.kinds)} commands"
    if part == "soak":
        memory = counters.of("memory")
        samples = memory.get("samples", [])
        peak = max((megabytes for _, megabytes in samples), default=0)
        more = f"; {memory.get('seconds', 0)} s, memory grew by {growth(samples):.1f} MB, peak {peak:.0f} MB"
    return f"| {PARTS[part]} | {tried:,} / {failed:,}{more} |"


def table(out: Path, commands: list[str]) -> str:
    """All rows, and one row per command that was killed."""
    lines = ["", "| tried / failed | count |", "|---|---|"]
    for part in PARTS:
        if (out / f"{part}.json").exists():
            lines.append(row(part, Counters(out / f"{part}.json")))
    lines += ["", "| command | kills that hit | changes of a file | not survived |", "|---|---|---|---|"]
    killed = Counters(out / "kill.json")
    for name in commands:
        if name in killed.kinds:
            kind = killed.of(name)
            lines.append(f"| `{name}` | {kind.get('hit', 0)} | {kind.get('changes', 0)} | {kind.get('failed', 0)} |")
    lines += [f"FAILED {part}: {failure}" for part, failure in failures(out)]
    return "\n".join(lines)


def failures(out: Path) -> list[tuple[str, str]]:
    """All failures of all parts."""
    found = []
    for part in PARTS:
        for name, kind in Counters(out / f"{part}.json").kinds.items():
            found += [(f"{part}, {name}", failure) for failure in kind["failures"]]
    return found
