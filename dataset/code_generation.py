"""Code that a process that compiles for CPUs generates beside TVM's own."""

from __future__ import annotations

from .prefetching import prefetch_weights
from .vector_math import vectorise_math


def improve_code() -> None:
    """Makes all code that this process generates for CPUs as fast as it was measured.

    Exponentials, hyperbolic tangents and error functions run in vectors (`vector_math`), and templates
    prefetch their weights (`prefetching`). Code without it is correct, too.
    """
    vectorise_math()
    prefetch_weights()
