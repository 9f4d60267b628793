"""Locks between processes: real ones."""

import subprocess
import sys
from pathlib import Path

import pytest

from mappable.errors import BadInputError
from mappable.locks import alone_in, alone_with, take

HOLDER = """
import sys, time
from pathlib import Path
from mappable.locks import take
with take(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.readline()
"""


@pytest.mark.medium
def test_a_lock_is_of_one_process_at_a_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "folder" / ".lock"
    command = [sys.executable, "-c", HOLDER, str(file)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdin is not None
        assert other.stdout.readline() == "held\n"
        assert take(file) is None
        other.kill()  # a process that dies gives its locks back
        other.wait()
    lock = take(file)
    assert lock is not None
    with lock:
        assert take(file) is None
    assert not file.exists()
    assert capsys.readouterr().err == ""


def test_a_folder_is_of_one_process_at_a_time(tmp_path: Path) -> None:
    with (
        alone_in(tmp_path / "new", "working"),
        pytest.raises(BadInputError, match=r"new.*another process is working"),
    ):
        alone_in(tmp_path / "new", "working").__enter__()
    with (
        alone_with(tmp_path / "state"),
        pytest.raises(BadInputError, match=r"state: another process uses this file"),
    ):
        alone_with(tmp_path / "state").__enter__()
    assert [file.name for file in tmp_path.rglob("*")] == ["new"]
    (tmp_path / "file").touch()
    with (
        pytest.raises(BadInputError, match=r"file.*folder"),
        alone_in(tmp_path / "file", "working"),
    ):
        pass
