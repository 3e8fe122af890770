"""Peak memory of a call."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Callable
from typing import Any


def peak_bytes(call: Callable[[], Any]) -> int:
    """Most bytes that Python and NumPy hold at once in a call, which runs in a fork of this process.

    A fork has one thread. Python crashes if tracing stops while another thread allocates memory.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            tracemalloc.start()
            call()
            os.write(writer, str(tracemalloc.get_traced_memory()[1]).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        peak = answer.read()
    os.waitpid(child, 0)
    return int(peak)
