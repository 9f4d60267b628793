"""Work of a GPU, recorded once and then started by a single call: a CUDA graph."""

from collections.abc import Callable
from typing import TypeVar

import torch

Result = TypeVar("Result")
REHEARSALS = 2  # runs before the recording, in which libraries choose and load their kernels


def record(work: Callable[[], Result], device: torch.device) -> tuple[Callable[[], None], Result]:
    """What does the GPU's part of `work` again, and the result of it, whose tensors then hold the new values.

    `work` must read its inputs from tensors that stay where they are, must not look at a number on the GPU, and is
    called a few times first. Its results are overwritten each time.
    """
    aside = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    aside.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.device(device), torch.cuda.stream(aside):
        for _ in range(REHEARSALS):
            work()
    torch.cuda.current_stream(device).wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    # Other threads may go on, such as one that reads images into pinned memory.
    with torch.cuda.device(device), torch.cuda.graph(graph, capture_error_mode="thread_local"):
        result = work()
    return graph.replay, result
