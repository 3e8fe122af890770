"""How many threads linear algebra takes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController


@contextmanager
def linear_algebra_threads(count: int) -> Iterator[None]:
    """Has torch and NumPy compute on `count` threads within the block.

    Those of a small product wait for each other longer than they compute, the more so beside other work.
    """
    import torch  # what only measures does without

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        with _numpy_threads().limit(limits=count, user_api="blas"):
            yield
    finally:
        torch.set_num_threads(before)


@cache
def _numpy_threads() -> ThreadpoolController:
    return ThreadpoolController()  # looks at each library of the process, which takes 40 ms
