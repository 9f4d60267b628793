"""Run every command that writes on a disk that is full, and with a limit on the size of files.

A command must fail with one sentence that names a file, keep what was good, and end well once there
is room.
"""

import os
import random
import re
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from trust.commands import COMMANDS
from trust.counters import Counters
from trust.kills import Killer
from trust.processes import Ended, run

KINDS = ("full disk", "file size limit")


def can_mount() -> str:
    """Why a small disk cannot be mounted here; "" if it can."""
    if os.name != "posix" or os.geteuid() != 0:
        return "mounting a small disk needs root"
    try:
        with small_disk(Path("/tmp/trust-mount-probe"), 1 << 20):
            return ""
    except (OSError, subprocess.CalledProcessError) as error:
        return f"mounting a small disk failed: {error}"


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[Path]:
    """A disk of that many bytes, in memory, mounted at the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder],
        check=True,
        capture_output=True,
    )
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True, capture_output=True)
        folder.rmdir()


def used(folder: Path) -> int:
    """Bytes of all files of a folder, in blocks of a disk."""
    return sum(4096 + -(-file.stat().st_size // 4096) * 4096 for file in folder.rglob("*"))


def judge(ended: Ended, killer: Killer) -> str:
    """What is wrong with a command that met a full disk; "" if nothing is."""
    if ended.status == 0:
        return ""
    if not ended.sentence:
        return f"exit {ended.status}: {ended.output[-400:]}"
    error = re.findall(r"^error: (.*)$", ended.output, re.MULTILINE)[0]
    if error.startswith("the system"):
        return f"names no file: {error}"
    return killer.judge(killer.look())


def run_full(
    base: Path,
    work: Path,
    counters: Counters,
    tries: int,
    names: Iterable[str] = COMMANDS,
    until: float = float("inf"),
) -> None:
    """Try each command `tries` times on a full disk, and `tries` times with a limit on the size of
    files.
    """
    reason = can_mount()
    for name in names:
        plain = Killer(COMMANDS[name], base, work / "full")
        grown = max(1, used(work / "full"))
        largest = max(
            (file.stat().st_size for file in (work / "full").rglob("*") if file.is_file()),
            default=1,
        )
        for kind in KINDS:
            key = f"{name}, {kind}"
            if kind == KINDS[0] and reason:
                counters.of(key)["skipped"] = reason
                continue
            while counters.get(key, "tried") < tries and time.monotonic() < until:
                draw = random.Random(f"{key} {counters.get(key, 'tried')}")
                if kind == KINDS[0]:
                    wrong, failed = _on_full_disk(plain, work / "disk", grown, draw)
                else:
                    plain.command.prepare(base, plain.work)
                    limit = draw.choice(
                        [2000, *(draw.randrange(2000, max(2001, largest)) for _ in range(3))]
                    )
                    wrong, failed = _limited(plain, limit)
                counters.add(key, "tried")
                counters.add(key, "met", failed)
                if wrong:
                    counters.fail(key, wrong)
                counters.save()


def _limited(killer: Killer, limit: int) -> tuple[str, bool]:
    words = killer.command.words(killer.base)
    before = lambda: killer.command.setup(killer.base)  # noqa: E731
    ended = run(words, killer.work, killer.output, before=before, file_limit=limit)
    return _after(killer, ended, f"limit {limit}: "), ended.status != 0


def _after(killer: Killer, ended: Ended, where: str) -> str:
    """Judge the failed command, then run it again with room."""
    try:
        wrong = judge(ended, killer)
        if wrong or ended.status == 0:
            return wrong and where + wrong
        again = killer.run()
        if again.status:
            return f"{where}then exit {again.status}: {again.output[-300:]}"
        parts = killer.look()
    except RuntimeError as error:
        return where + str(error).strip().splitlines()[-1]
    return "" if parts == killer.after else f"{where}then {parts}, expected {killer.after}"


def _on_full_disk(
    killer: Killer, folder: Path, grown: int, draw: random.Random
) -> tuple[str, bool]:
    """Fill a disk up to a few blocks, run the command on it, make room, and run it again."""
    with small_disk(folder, 4 * grown + (1 << 20)) as disk:
        there = object.__new__(Killer)
        there.__dict__ |= killer.__dict__
        there.work = disk / "work"
        killer.command.prepare(killer.base, there.work)
        state = os.statvfs(disk)
        room = draw.choice([0, 4096, draw.randrange(1, grown + 1), draw.randrange(1, grown + 1)])
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(max(0, state.f_bavail * state.f_frsize - room)))
        words = killer.command.words(killer.base)
        before = lambda: killer.command.setup(killer.base)  # noqa: E731
        ended = run(words, there.work, killer.output, before=before)
        ballast.unlink()
        return _after(there, ended, f"room of {room} bytes: "), ended.status != 0
