"""CUDA graphs: record work on a GPU once, and repeat it with a single call."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from threading import get_ident
from typing import Any, Generic, TypeVar

import torch

Result = TypeVar("Result")
WARM_UP_RUNS = 2  # runs before the recording, in which libraries choose and load their kernels


@dataclass(frozen=True)
class Recording(Generic[Result]):
    """Recorded GPU work. Call it to repeat the work; the tensors of `result` then have the new
    values.
    """

    graph: torch.cuda.CUDAGraph
    # Keeps its tensors alive, because the graph has only their addresses.
    work: Callable[[], Result]
    result: Result

    def __call__(self) -> None:
        self.graph.replay()


def record(work: Callable[[], Result], device: torch.device, pool: Any = None) -> Recording[Result]:
    """Record the GPU's part of `work`.

    `work` must read its inputs from tensors that stay at the same address. It must not read a
    number from the GPU. It is first called a few times. Each call overwrites its results.
    Recordings with the same `pool` (`torch.cuda.graph_pool_handle()`) share memory: a result is
    valid until another recording of the pool is called.
    """
    stream = _stream(device, get_ident())
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.device(device), torch.cuda.stream(stream):
        for _ in range(WARM_UP_RUNS):
            work()
    torch.cuda.current_stream(device).wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    # "thread_local" lets other threads continue, such as one that reads images into pinned memory.
    with (
        torch.cuda.device(device),
        torch.cuda.graph(graph, pool=pool, stream=stream, capture_error_mode="thread_local"),
    ):
        result = work()
    return Recording(graph, work, result)


@cache
def _stream(device: torch.device, thread: int) -> torch.cuda.Stream:
    """The stream on which a thread records. There is only one, because libraries keep 64 MiB per
    stream they see.
    """
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
