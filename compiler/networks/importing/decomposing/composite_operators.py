"""Decomposition of exported programs without PyTorch's preparation of all composite operators.

`ExportedProgram.run_decompositions` replaces the kernels of all of PyTorch's 700 composite operators in each
call, which takes half a second. Composite operators decompose by themselves, so that only those with another
decomposition need it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

from torch.export import ExportedProgram, default_decompositions, exported_program

Table = Mapping[Any, Callable[..., Any]]

_SCAN, _IS_COMPOSITE = "_collect_all_valid_cia_ops", "_is_preservable_cia_op"
"""Names that PyTorch may change: without them, its preparation runs."""


def run_decompositions(program: ExportedProgram, changed: Table) -> ExportedProgram:
    """The program in PyTorch's core operators, with the decompositions of `changed` in front of PyTorch's."""
    is_composite = getattr(exported_program, _IS_COMPOSITE, None)
    if is_composite is None or not hasattr(exported_program, _SCAN):
        return program.run_decompositions({**default_decompositions(), **changed})
    with _scanned({op for op in changed if is_composite(op)}):
        return program.run_decompositions({**_plain_defaults(), **changed})


@cache
def _plain_defaults() -> Table:
    """PyTorch's decompositions of operators that are not composite."""
    is_composite = getattr(exported_program, _IS_COMPOSITE)
    return {op: found for op, found in default_decompositions().items() if not is_composite(op)}


@contextmanager
def _scanned(composite: set[Any]) -> Iterator[None]:
    """Lets PyTorch's scan for composite operators find these alone."""
    scan = getattr(exported_program, _SCAN)
    setattr(exported_program, _SCAN, lambda: composite)
    try:
        yield
    finally:
        setattr(exported_program, _SCAN, scan)
