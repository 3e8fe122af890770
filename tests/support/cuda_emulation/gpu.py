"""Process with an emulated CUDA device, as its owner sees it."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import nullcontext
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal, TypeVar
from unittest.mock import patch

import numpy as np

from .report import KernelReport

Result = TypeVar("Result")

Order = Literal["ascending", "descending"] | int
"""Order in which the threads of a block run between barriers; a number of 2 or more seeds random orders."""

_ORDERS = {"ascending": 0, "descending": 1}


@dataclass(frozen=True)
class Removal:
    """The `number`-th match of a pattern that is removed from the CUDA text, to see what notices."""

    pattern: str
    number: int = 0

    def __call__(self, source: str) -> str:
        found = list(re.finditer(self.pattern, source, re.MULTILINE))
        if self.number >= len(found):
            raise IndexError(f"{self.pattern!r} matches {len(found)} times: there is no number {self.number}")
        begin, end = found[self.number].span()
        return source[:begin] + source[end:]


@dataclass(frozen=True)
class Execution:
    """Outcome of a run: output, message of what stopped it, and with `trace` a report for each launch."""

    output: np.ndarray
    failure: str | None
    kernels: tuple[KernelReport, ...]

    @property
    def races(self) -> tuple[str, ...]:
        return tuple(race for kernel in self.kernels for race in kernel.races)


class NotBuiltError(Exception):
    """TVM's code generation fails on the program; no error of the emulation."""


class EmulatedGpu:
    """A process that has `devices` emulated CUDA devices.

    A program that crashes costs the process alone. Libraries and the precompiled header stay in `cache`.
    """

    def __init__(self, cache: Path, devices: int = 1) -> None:
        self._arguments = (str(cache), devices)
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> EmulatedGpu:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def call(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """Result of a function of a module, run in the process with the device.

        Raises BrokenProcessPool where the process dies; the next call starts another.
        """
        if self._pool is None:
            self._pool = ProcessPoolExecutor(
                1, mp_context=get_context("spawn"), initializer=_start, initargs=self._arguments
            )
        try:
            return self._pool.submit(function, *arguments).result()
        except BrokenProcessPool:
            self.close()
            raise

    def run(
        self,
        mod: Any,
        target: Any,
        inputs: Sequence[np.ndarray],
        *,
        order: Order = "ascending",
        trace: bool = False,
        removed: Removal | None = None,
        checked: bool = True,
    ) -> Execution:
        """Compile a scheduled module as the product does and run it; its last argument is the output.

        Without `checked`, programs are compiled that the product refuses because TVM compiles them to wrong
        code. Raises NotBuiltError if TVM has no code for the module, RuntimeError if the emulation cannot
        compile it.
        """
        found = self.run_in_orders(
            mod, target, inputs, [order], trace=trace, removed=removed, checked=checked
        )
        return found[0]

    def run_in_orders(
        self,
        mod: Any,
        target: Any,
        inputs: Sequence[np.ndarray],
        orders: Sequence[Order],
        *,
        trace: bool = False,
        removed: Removal | None = None,
        checked: bool = True,
    ) -> list[Execution]:
        """`run` in each of these orders of threads, compiled once."""
        import tvm

        numbers = [_ORDERS[order] if isinstance(order, str) else order for order in orders]
        return self.call(
            _run, tvm.ir.save_json(mod), str(target), list(inputs), numbers, trace, removed, checked
        )


_emulation: Any = None
"""The devices of this process, in the process of an EmulatedGpu."""


def _start(cache: str, devices: int) -> None:
    global _emulation
    sys.modules.setdefault("torch", None)  # type: ignore[arg-type]  # TVM imports it if it can, which takes seconds
    from .device import install

    _emulation = install(Path(cache), devices)


def _run(
    module: str,
    target: str,
    inputs: list[np.ndarray],
    orders: list[int],
    trace: bool,
    removed: Removal | None,
    checked: bool,
) -> list[Execution]:
    import tvm
    from foretune.compiler.codegen import compilation
    from foretune.compiler.tvm_compat import argument_buffers, module_from_json, parse_target

    mod = module_from_json(module)
    _emulation.trace, _emulation.edit = trace, removed or str
    try:
        with nullcontext() if checked else patch.object(compilation, "check_copies"):
            library = compilation.jit(mod, parse_target(target))
    except tvm.error.InternalError as error:
        raise NotBuiltError(str(error)) from error
    except RuntimeError as error:
        if "error: too many arguments to function" in str(error):  # as CUDA's compiler says of TVM's text
            raise NotBuiltError(str(error)) from error
        raise
    device = tvm.cuda(0)
    shape, dtype = argument_buffers(mod)[-1]
    executions = []
    for order in orders:
        _emulation.set_order(order)
        # What a program does not write stays NaN, or a number that no test expects.
        output = np.full(shape, np.nan if "float" in dtype else 77, dtype)
        tensors = [tvm.runtime.tensor(array, device) for array in (*inputs, output)]
        _emulation.set_buffers(tensors)
        failure = None
        try:
            library["main"](*tensors)
        except RuntimeError as error:
            failure = str(error)
        executions.append(Execution(tensors[-1].numpy(), failure, _emulation.take_reports()))
    return executions
