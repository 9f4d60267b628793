"""Apply the mutations one by one to a copy of the source, and note which ones the tests catch.

    python studies/mutations/run.py TREE OUT.json

TREE is a checkout; the environment has everything that `make test` installs. First run the tests in
files that mention the module; then, for the mutations that remain, all tests of the room. An
existing OUT.json continues.
"""

import json
import os
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import NoReturn

from mutations import MUTATIONS, Mutation

SECONDS = 600  # after this time, a mutation counts as caught: its tests hang
MARKS = "not long and not cluster"


def find(source: Path, mutation: Mutation) -> tuple[Path, str, str] | None:
    """The only file of the room that contains the text once, the text, and what it becomes; None if
    no file does.
    """
    room = source / "mappable" / mutation.room
    files = (
        [room]
        if room.is_file()
        else sorted(room.rglob("*.py") if mutation.room else room.glob("*.py"))
    )
    for text, wrong in ((mutation.text, mutation.wrong), (mutation.now, mutation.wrong_now)):
        holding = [file for file in files if text and text in file.read_text()]
        if len(holding) == 1 and holding[0].read_text().count(text) == 1:
            return holding[0], text, wrong
    return None


def tests_of(tree: Path, mutation: Mutation) -> list[str]:
    """Folders or files with the tests of a mutation."""
    folders = (mutation.tests or mutation.room).split()
    return [f"tests/{folder}" for folder in folders if (tree / "tests" / folder).exists()]


def tests_that_mention(tree: Path, folders: list[str], module: Path) -> list[str]:
    """The test files that mention a module, and first the one named after it."""
    files = [tree / name for name in folders]
    files = [
        file
        for name in files
        for file in ([name] if name.is_file() else sorted(name.rglob("test_*.py")))
    ]
    files = [
        file
        for file in files
        if module.stem in file.name or f"{module.parent.name}.{module.stem}" in file.read_text()
    ]
    files.sort(key=lambda file: module.stem not in file.name)
    return [str(file.relative_to(tree)) for file in files]


def run_tests(tree: Path, source: Path, tests: list[str], output: int) -> NoReturn:
    """In the child process: run pytest with the output in a file, and exit with its status."""
    status = 1
    try:
        os.setsid()
        os.chdir(tree)
        os.dup2(output, 1)
        os.dup2(output, 2)
        paths = [str(source), str(tree / "worlds/src")]
        os.environ["PYTHONPATH"] = os.pathsep.join(paths)
        sys.path[:0] = paths
        status = pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-n", "0", "-m", MARKS, *tests])
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(status)


def caught_by(tree: Path, source: Path, tests: list[str]) -> str:
    """The first test that fails; "" if none does. The tests run in a fork, so that PyTorch loads
    only once.
    """
    if not tests:
        return ""
    with tempfile.NamedTemporaryFile("w+") as output:
        child = os.fork()
        if not child:
            run_tests(tree, source, tests, output.fileno())
        end = time.monotonic() + SECONDS
        while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
            if time.monotonic() > end:
                os.killpg(child, 9)
                os.waitpid(child, 0)
                return "timeout"
            time.sleep(0.2)
        if os.waitstatus_to_exitcode(ended[1]) in (0, 5):
            return ""
        lines = Path(output.name).read_text().splitlines()
        failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
        if not failed:
            raise RuntimeError("\n".join(lines[-20:]))
        return failed[0].partition(" - ")[0].removeprefix("FAILED tests/")


def main() -> None:
    tree, out = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    results = json.loads(out.read_text()) if out.is_file() else {}
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "src"
        shutil.copytree(tree / "src", source)
        for whole_room in (False, True):
            for mutation in MUTATIONS:
                known = results.get(mutation.name)
                if known and (known["caught"] is not False or known["whole_room"] >= whole_room):
                    continue
                if not (place := find(source, mutation)):
                    results[mutation.name] = {
                        "room": mutation.room,
                        "caught": None,
                        "by": "text not found",
                    }
                else:
                    file, text, wrong = place
                    right = file.read_text()
                    tests = tests_of(tree, mutation)
                    if not whole_room:
                        tests = tests_that_mention(tree, tests, file)
                    file.write_text(right.replace(text, wrong))
                    by = caught_by(tree, source, tests)
                    file.write_text(right)
                    results[mutation.name] = {
                        "room": mutation.room,
                        "caught": bool(by),
                        "by": by,
                        "whole_room": whole_room,
                    }
                out.write_text(json.dumps(results, indent=1) + "\n")
                print(mutation.name, results[mutation.name], flush=True)


if __name__ == "__main__":
    os.environ.update(OMP_NUM_THREADS="1")
    import pyarrow.parquet  # noqa: F401  # large packages load once, before the forks
    import pytest
    import scipy.optimize
    import scipy.spatial  # noqa: F401
    import torch  # noqa: F401

    main()
