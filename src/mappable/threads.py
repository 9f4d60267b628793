"""Worker threads: the number of cores, and results in task order."""

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from mappable.interruption import held_back

Task = TypeVar("Task")
Result = TypeVar("Result")


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_order(
    pool: ThreadPoolExecutor, work: Callable[[Task], Result], tasks: Sequence[Task], ahead: int
) -> Iterator[Result]:
    """Yield results of `work` in the order of `tasks`; at most `ahead` of them run or wait to be
    fetched.

    Ctrl-C takes effect between two results. Anywhere else it could leave a lock of the pool held
    forever.
    """
    waiting: deque[Future[Result]] = deque()
    try:
        with held_back() as interrupted:
            for task in tasks:
                waiting.append(pool.submit(work, task))
                if len(waiting) >= ahead and not interrupted():
                    yield waiting.popleft().result()
                if interrupted():
                    break
            while waiting and not interrupted():
                yield waiting.popleft().result()
        if interrupted():  # and the signal's handler did not raise
            raise KeyboardInterrupt
    finally:
        for future in waiting:
            future.cancel()
