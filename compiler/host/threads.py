"""Cores of this process, and the thread count of linear algebra."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController


def available_cores() -> int:
    """Number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def linear_algebra_threads(count: int) -> Iterator[None]:
    """Limit torch and NumPy to `count` threads within the block.

    With small products, threads wait for each other longer than they compute, even more next to other work.
    """
    import torch  # not needed by worker processes

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        with _numpy_threads().limit(limits=count, user_api="blas"):
            yield
    finally:
        torch.set_num_threads(before)


@cache
def _numpy_threads() -> ThreadpoolController:
    return ThreadpoolController()  # inspects all libraries of the process, which takes 40 ms
