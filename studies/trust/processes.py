"""Run `mappable` commands in forked processes, and kill them at chosen moments.

This process imports everything and computes nothing, so a fork starts in milliseconds and is a
complete command: `mappable.cli.main` with its own arguments, output files and exit status.
"""

import json
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.link", "os.symlink"}
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
LONGEST = 120.0  # seconds of a command; all take under 10
# A fork has these already. Each takes long to import.
PRELOADED = (
    *(
        "mappable.cli.app",
        "mappable.learning.trainer",
        "mappable.evaluation.reproduce",
        "mappable.evaluation.report",
    ),
    *(
        "mappable.localization.build",
        "mappable.localization.densification",
        "mappable.features.onnx_export",
        "mappable_worlds.simulation",
    ),
    *(
        "mappable.recovery.methods",
        "mappable.service.app",
        "torch._dynamo",
        "matplotlib.pyplot",
        "h5py",
        "faiss",
    ),
)


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit status (minus the signal, if a signal ended it), and what it
    wrote.
    """

    status: int
    output: str
    seconds: float
    changes: int = 0

    @property
    def killed(self) -> bool:
        return self.status == -signal.SIGKILL

    @property
    def sentence(self) -> bool:
        """True for a refusal as users see it: one line that begins with `error:`.

        With exit code 3, the command did the rest of its work, and each such line names a part that
        is missing.
        """
        errors = [line for line in self.output.splitlines() if line.startswith("error: ")]
        counted = len(errors) == 1 if self.status in (1, 2) else errors and self.status == 3
        return bool(counted) and "Traceback" not in self.output


def preload() -> None:
    """Import everything that commands need, so that a fork does not."""
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ.setdefault("MPLBACKEND", "agg")
    for name in PRELOADED:
        try:
            import_module(name)
        except ImportError:
            continue


@dataclass
class Running:
    """A command that is running. `events` has one byte per change of a file that is about to
    happen.
    """

    pid: int
    events: int
    output: Path
    started: float

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def wait_for_change(self, number: int) -> bool:
        """Wait until the change with this number, counted from 1, is about to happen; False if the
        command ends.
        """
        seen = 0
        while seen < number:
            ready, _, _ = select.select([self.events], [], [], LONGEST)
            got = os.read(self.events, number - seen) if ready else b""
            if not got:
                return False
            seen += len(got)
        return True

    def wait(self) -> Ended:
        changes = 0
        deadline = self.started + LONGEST
        while select.select([self.events], [], [], max(0.0, deadline - time.monotonic()))[0]:
            got = os.read(self.events, 4096)
            if not got:
                break
            changes += len(got)
        if time.monotonic() >= deadline:
            self.kill()
        _, status = os.waitpid(self.pid, 0)
        os.close(self.events)
        code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        seconds = time.monotonic() - self.started
        return Ended(code, self.output.read_text(errors="replace"), seconds, changes)


def start(
    arguments: list[object],
    folder: Path,
    output: Path,
    *,
    kill_before: int | None = None,
    file_limit: int | None = None,
    before: Callable[[], None] | None = None,
    environment: dict[str, str] | None = None,
) -> Running:
    """Start `mappable ARGUMENTS`; `kill_before` N kills it before its N-th change of a file below
    `folder`.

    `file_limit` is the largest file that it can write, in bytes, as `ulimit -f` sets it. `before`
    runs first.
    """
    reader, writer = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writer)
        return Running(pid, reader, output, time.monotonic())
    code = 99
    try:
        os.close(reader)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        written = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(written, 1)
        os.dup2(written, 2)
        sys.stdout = os.fdopen(1, "w", closefd=False)
        sys.stderr = os.fdopen(2, "w", closefd=False)
        os.environ.update(environment or {})
        os.chdir(folder)
        if before is not None:
            before()
        sys.addaudithook(_hook(str(folder.resolve()), writer, kill_before))
        if file_limit is not None:
            # As Python does: writing then fails with EFBIG.
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            import resource  # Windows has no such module

            resource.setrlimit(resource.RLIMIT_FSIZE, (file_limit, file_limit))
        sys.argv = ["mappable", *map(str, arguments)]
        from mappable.cli import main

        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _hook(
    folder: str, writer: int, kill_before: int | None
) -> Callable[[str, tuple[Any, ...]], None]:
    """An audit hook (PEP 578) that reports each change of a file below the folder, before the
    change.
    """
    count = 0

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal count
        if event == "open":
            path, _, flags = arguments
            if not isinstance(flags, int) or not flags & WRITES:
                return
        elif event in CHANGES:
            path = arguments[0]
        else:
            return
        if isinstance(path, int) or not os.path.abspath(os.fsdecode(path)).startswith(folder):  # noqa: PTH100
            return
        count += 1
        if count == kill_before:
            os.kill(os.getpid(), signal.SIGKILL)
        os.write(writer, b".")

    return hook


def run(arguments: list[object], folder: Path, output: Path, **options: Any) -> Ended:
    """Run `mappable ARGUMENTS` to its end."""
    return start(arguments, folder, output, **options).wait()


def ask(function: Callable[[], Any]) -> Any:
    """The result of a function, as JSON, computed in a fork; an exception becomes a RuntimeError
    with its traceback.
    """
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            answer = json.dumps([True, function()])
        except BaseException:
            answer = json.dumps([False, traceback.format_exc()])
        try:
            os.close(reader)
            with os.fdopen(writer, "w") as stream:
                stream.write(answer)
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as stream:
        text = stream.read()
    os.waitpid(pid, 0)
    good, value = json.loads(text) if text else (False, "the process died")
    if not good:
        raise RuntimeError(value)
    return value
