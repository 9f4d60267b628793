"""The tables of the README, from the counters of a run."""

from pathlib import Path

from trust.counters import Counters
from trust.kills import KINDS
from trust.soak import growth

# File of the counters, what they count, their name, and how many there should be. None is the sum
# over all kinds.
ROWS = (
    ("kill", None, "hit", "kills that hit a process at work", 1000),
    ("pairs", None, "tried", "two commands at once", 96),
    ("damage", None, "tried", "damages", 2000),
    ("fuzz", None, "tried", "inputs of the fuzzer", 100_000),
    ("guided", None, "tried", "inputs chosen by coverage (atheris)", 20_000),
    ("http", "document", "tried", "requests from the OpenAPI document", 2000),
    ("http", "schemathesis", "tried", "cases of schemathesis", 1000),
    ("full", None, "met", "full disks and file limits that a command met", 72),
    ("soak", None, "tried", "requests in the soak", None),
)
PARTS = tuple(dict.fromkeys(part for part, *_ in ROWS))


def rows(out: Path, part: str) -> list[str]:
    """The rows of one part: what was tried, how often, how often it failed, and how often it should
    be tried.
    """
    counters = Counters(out / f"{part}.json")
    lines = []
    for _, kind, name, text, target in (row for row in ROWS if row[0] == part):
        tried = counters.total(name) if kind is None else counters.get(kind, name)
        failed = counters.total("failed") if kind is None else counters.get(kind, "failed")
        lines.append(
            _row(text, f"{tried:,}", f"{failed:,}", "" if target is None else f"{target:,}")
        )
    if part == "kill" and counters.kinds:
        least = min(counters.kinds, key=lambda name: counters.get(name, "hit"))
        lines.append(
            _row("kills of the command with the fewest", f"{counters.get(least, 'hit')}", "", "50")
        )
        before = sum(_killed_before(counters, name) for name in counters.kinds)
        every = f"{counters.total('changes'):,}"
        lines.append(
            _row(
                "changes of files by these commands, with a kill before them",
                f"{before:,}",
                "",
                every,
            )
        )
    if part == "soak":
        memory = counters.of("memory")
        samples = memory.get("samples", [])
        lines.append(_row("seconds of the soak", f"{memory.get('seconds', 0):,}", "", "1,200"))
        peak = max((megabytes for _, megabytes in samples), default=0)
        lines.append(
            _row(
                "memory of the server, peak in MB",
                f"{peak:.0f}",
                f"grew by {growth(samples):.1f}",
                "flat",
            )
        )
    return lines


def _killed_before(killed: Counters, name: str) -> int:
    """The number of changes of a command's files that a kill preceded."""
    return min(killed.get(name, KINDS[0]), killed.get(name, "changes"))


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def table(out: Path, commands: list[str]) -> str:
    """All rows, one row per command that was killed, and all failures."""
    lines = ["", _row("what", "tried", "failed", "target"), "|---|---|---|---|"]
    for part in PARTS:
        if (out / f"{part}.json").exists():
            lines += rows(out, part)
    lines += [
        "",
        _row(
            "command", "kills that hit", "changes of a file", "with a kill before", "not survived"
        ),
    ]
    lines += ["|---|---|---|---|---|"]
    killed = Counters(out / "kill.json")
    for name in commands:
        if name in killed.kinds:
            hit, changes, failed = (
                f"{killed.get(name, one)}" for one in ("hit", "changes", "failed")
            )
            lines.append(_row(f"`{name}`", hit, changes, f"{_killed_before(killed, name)}", failed))
    lines += [f"FAILED {part}: {failure}" for part, failure in failures(out)]
    return "\n".join(lines)


def failures(out: Path) -> list[tuple[str, str]]:
    """All failures of all parts."""
    found = []
    for part in PARTS:
        for name, kind in Counters(out / f"{part}.json").kinds.items():
            found += [(f"{part}, {name}", failure) for failure in kind["failures"]]
    return found
