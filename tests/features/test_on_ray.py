"""Descriptors from a Ray cluster: those of one machine, each once, even if workers and machines are killed."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from mappable.cli.app import app
from mappable.features import on_ray
from mappable.features.descriptors import read_descriptors
from mappable.places.files import save_places
from mappable.places.frames import Frame
from mappable.places.table import Places

IMAGES, DISTINCT = 4000, 20
PORT, CLIENTS = 26379, 20001


def mappable(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def collection(tmp_path: Path, draw: Callable[..., Path]) -> Callable[[int], Path]:
    """A function that makes a table of images: some pictures under many names."""

    def make(count: int, size: tuple[int, int] = (64, 48)) -> Path:
        (tmp_path / "images").mkdir()
        for number in range(count):
            file = tmp_path / f"images/{number}.jpg"
            if number < DISTINCT:
                draw(file, size)
            else:
                os.link(tmp_path / f"images/{number % DISTINCT}.jpg", file)
        places = Places(
            path=[f"{number}.jpg" for number in range(count)],
            x=np.arange(count, dtype=float),
            y=np.zeros(count),
            frames=Frame("map"),
            root=tmp_path / "images",
        )
        save_places(places, tmp_path / "places.parquet")
        return tmp_path / "places.parquet"

    return make


def test_a_worker_writes_a_shard_once_and_reports_a_bad_image(
    foreign_onnx: Callable[..., Path], collection: Any, tmp_path: Path
) -> None:
    from mappable.features.opening import open_file
    from mappable.places.files import load_places

    encoder, places = open_file(foreign_onnx(), "cpu"), load_places(collection(7))
    options = ("cpu", None, "float32", None, False)
    job = on_ray.Job(foreign_onnx(), encoder.fingerprint, places, tmp_path, 4, *options)  # type: ignore[arg-type]
    worker = on_ray.Worker(job)
    (tmp_path / "images/5.jpg").unlink()
    answers = worker({"shard": np.array([0, 1])})["error"].tolist()
    assert answers[0] == ""
    assert "5.jpg" in answers[1]
    (file,) = tmp_path.glob("*.npy")
    assert file.name == "000000-float32.npy"
    before = file.stat().st_mtime_ns
    worker({"shard": np.array([0])})
    assert file.stat().st_mtime_ns == before
    np.testing.assert_array_equal(np.load(file), encoder.embed(places[:4]))


class Cluster:
    """Two Ray nodes with one CPU each; each node is a process group of its own."""

    def __init__(self) -> None:
        # A short path, because it has sockets.
        self.folder = Path(tempfile.mkdtemp(prefix="ray", dir="/tmp"))
        self.nodes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        self.head = self._start(
            "127.0.0.2", "--head", f"--port={PORT}", f"--ray-client-server-port={CLIENTS}"
        )
        self.other = self._start("127.0.0.3", f"--address=127.0.0.2:{PORT}")

    def _start(self, address: str, *options: str) -> "subprocess.Popen[bytes]":
        command = [
            sys.executable,
            "-m",
            "ray.scripts.scripts",
            "start",
            f"--node-ip-address={address}",
            *options,
        ]
        command += ["--num-cpus=1", "--object-store-memory=100000000", "--block"]
        command += (
            [f"--temp-dir={self.folder}", "--include-dashboard=False"]
            if "--head" in options
            else []
        )
        paths = [str(Path(on_ray.__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "RAY_USAGE_STATS_ENABLED": "0",
        }
        log = (self.folder / f"{address}.log").open("wb")
        with log:
            started = subprocess.Popen(
                command, env=environment, stdout=log, stderr=log, start_new_session=True
            )
        self.nodes.append(started)
        ends = time.monotonic() + 60
        while b"Ray runtime started" not in (self.folder / f"{address}.log").read_bytes():
            assert time.monotonic() < ends, (self.folder / f"{address}.log").read_text()
            time.sleep(0.2)
        return started

    def processes(self, node: "subprocess.Popen[bytes]") -> dict[int, bytes]:
        """Titles of all processes of a node, by id."""
        parents, titles = {}, {}
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                parents[int(entry.name)] = int(
                    (entry / "stat").read_text().rsplit(")", 1)[1].split()[1]
                )
                titles[int(entry.name)] = (entry / "cmdline").read_bytes()
            except OSError:
                continue  # it ended
        own = {node.pid}
        while more := {pid for pid, parent in parents.items() if parent in own} - own:
            own |= more
        return {pid: titles.get(pid, b"") for pid in own}

    def kill_worker(self) -> None:
        """Kill a process that describes images."""
        every = self.processes(self.other) | self.processes(self.head)
        os.kill(
            next(pid for pid, title in every.items() if title.startswith(b"ray::MapWorker")),
            signal.SIGKILL,
        )

    def kill_node(self, node: "subprocess.Popen[bytes]") -> None:
        """Kill all processes of a node."""
        for pid in sorted(self.processes(node)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        node.wait(60)


@pytest.fixture
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    """A token of Ray for the test, so that nothing depends on a token in the home folder."""
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", "0123456789abcdef" * 4)


@pytest.fixture
def cluster(token: None) -> Iterator[Cluster]:
    pytest.importorskip("ray")
    started = Cluster()
    try:
        started.start()
        yield started
    finally:
        for node in reversed(started.nodes):
            started.kill_node(node)
        shutil.rmtree(started.folder, ignore_errors=True)


def in_process(*arguments: object) -> "subprocess.Popen[str]":
    """Start the command with small shards."""
    code = (
        "from mappable.features import on_ray; on_ray.SHARD = 32; from mappable.cli import main;"
        " main()"
    )
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(condition: Callable[[], Any], seconds: float = 90) -> Any:
    ends = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < ends
        time.sleep(0.05)
    return found


@pytest.mark.cluster
def test_a_cluster_describes_each_image_once_although_it_is_damaged(
    cluster: Cluster, foreign_onnx: Callable[..., Path], collection: Any, tmp_path: Path
) -> None:
    table, encoder = collection(IMAGES, (1280, 960)), foreign_onnx()
    out, alone = tmp_path / "out", tmp_path / "alone"
    with in_process("embed", encoder, table, out, "--on", f"ray://127.0.0.2:{CLIENTS}") as job:
        wait_for(lambda: len(list(out.glob("shards-*/[0-9]*.npy"))) >= 4)
        cluster.kill_worker()
        wait_for(lambda: len(list(out.glob("shards-*/[0-9]*.npy"))) >= 20)
        cluster.kill_node(cluster.other)
        assert len(list(out.glob("shards-*/[0-9]*.npy"))) < 100  # the job still runs
        output, problem = job.communicate(timeout=200)
    assert job.returncode == 0, problem
    assert f"{IMAGES:,} descriptors" in output
    assert mappable("embed", encoder, table, alone).exit_code == 0
    found, true = read_descriptors(out), read_descriptors(alone)
    assert found.places == true.places
    assert found.encoder == true.encoder
    np.testing.assert_array_equal(found.descriptors, true.descriptors)
    assert not list(out.glob("shards-*"))


@pytest.mark.cluster
def test_a_stopped_job_continues_on_this_machine(
    token: None, foreign_onnx: Callable[..., Path], collection: Any, tmp_path: Path
) -> None:
    pytest.importorskip("ray")
    table, encoder, out = collection(300), foreign_onnx(), tmp_path / "out"
    (tmp_path / "images/170.jpg").rename(tmp_path / "kept.jpg")
    with in_process("embed", encoder, table, out, "--on", "local") as job:
        _, problem = job.communicate(timeout=200)
    assert job.returncode == 1
    assert "170.jpg" in problem
    assert "Traceback" not in problem
    written = {file.name: file.stat().st_mtime_ns for file in out.glob("shards-*/[0-9]*.npy")}
    assert len(written) == 9
    (tmp_path / "kept.jpg").rename(tmp_path / "images/170.jpg")
    with in_process("embed", encoder, table, out, "--on", "local") as job:
        assert job.wait(200) == 0
    assert len(read_descriptors(out).descriptors) == 300
