"""A real Milvus server of the package `milvus`, for benchmarks and tests: started, killed with -9, started again."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

START = """
import os, socket, sys
from milvus import MilvusServer, MilvusServerConfig

def bind(self, port):  # unlike the wrapper's, it accepts a port right after a kill
    try:
        return socket.create_server(("127.0.0.1", port))
    except OSError:
        return None

MilvusServerConfig.try_bind_port = bind
fixed = {"proxy_port": int(sys.argv[2])} if len(sys.argv) > 2 else {}
server = MilvusServer(MilvusServerConfig(data_dir=sys.argv[1]), **fixed)
server.start()
print(server.server_proc.pid, server.listen_port, flush=True)
os._exit(0)  # without stopping the server
"""


class Server:
    """A Milvus server with its own data, which can be killed and started again at the same address."""

    def __init__(self, folder: Path) -> None:
        self.command = [sys.executable, "-c", START, str(folder)]
        self.pid, self.port = self.start()
        self.command.append(str(self.port))

    def start(self) -> tuple[int, int]:
        """Start the server; return its process and port."""
        started = subprocess.run(self.command, capture_output=True, text=True, timeout=120)
        assert started.returncode == 0, (
            f"{started.stderr[-500:]}; does another Milvus run on this machine?"
        )
        self.pid, port = map(int, started.stdout.split())
        return self.pid, port

    @property
    def uri(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def megabytes(self) -> float:
        """Its memory."""
        (line,) = (
            one
            for one in Path(f"/proc/{self.pid}/status").read_text().splitlines()
            if one.startswith("VmRSS")
        )
        return int(line.split()[1]) / 1000

    def kill(self) -> None:
        """Kill with -9, as a crash would, and wait for the end."""
        os.kill(self.pid, signal.SIGKILL)
        while self._runs():
            time.sleep(0.1)

    def _runs(self) -> bool:
        """Whether a thread still runs: until the last one ends, the port is taken, although the
        first is a zombie.
        """
        try:
            stats = [
                (task / "stat").read_text() for task in Path(f"/proc/{self.pid}/task").iterdir()
            ]
        except OSError:  # it ended
            return Path(f"/proc/{self.pid}/task").exists()
        return any(stat.rpartition(")")[2].split()[0] not in "ZX" for stat in stats)
