"""Checks of a case: convert, compile without a search, run, and compare with the original."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm
from foretune.compiler.networks import to_relax
from foretune.compiler.tvm_compat import parse_target
from foretune.errors import UserError
from foretune.inference.deploy.compile import compile_network, flatten
from foretune.inference.deploy.outputs import compare_outputs
from numpy.typing import NDArray
from tvm import relax

from .cases import Subject, WrongOutputError

_HALF = {"float16": 5e-3, "bfloat16": 2e-2}
"""Accepted relative difference of half-precision outputs."""


class OutputsDifferError(UserError, RuntimeError):
    """The product's own check finds that outputs differ."""


def check_untuned(subject: Subject) -> None:
    """Converts and compiles a network without a search and compares its outputs.

    Raises the product's errors, OutputsDifferError if the product's check finds a difference, and
    WrongOutputError if that check accepts outputs that differ element by element.
    """
    os.environ.setdefault("TVM_NUM_THREADS", "1")
    network, target = subject.network, parse_target("llvm")
    executable = compile_network(to_relax(network, target), target).executable
    main = relax.VirtualMachine(executable.jit(), tvm.cpu())["main"]  # a library takes longer to link
    outputs = main(*(tvm.runtime.tensor(array) for array in network.inputs))
    found = [tensor.numpy() for tensor in flatten(outputs)]
    reference = network.reference_outputs()
    shapes = [array.shape for array in reference], [array.shape for array in found]
    if shapes[0] != shapes[1]:
        raise OutputsDifferError(f"outputs have shapes {shapes[1]}, expected {shapes[0]}")
    check = compare_outputs(reference, found)
    if not check.agrees:
        check = compare_outputs(reference, found, network.rounding_errors(reference))
    if not check.agrees:
        raise OutputsDifferError(
            f"outputs differ by {check.max_abs_difference:.3g}, accepted {check.tolerance:.3g}"
        )
    expected = reference if subject.expected is None else subject.expected
    compare_elements(expected, found, subject.relative, subject.absolute)


def compare_elements(
    expected: Sequence[NDArray[Any]], found: Sequence[NDArray[Any]], relative: float, absolute: float
) -> None:
    """Raises WrongOutputError for an output of another kind of data, or with an element that differs.

    NaN agrees with NaN, and infinities agree with themselves.
    """
    for number, (wanted, got) in enumerate(zip(expected, found, strict=True)):
        if _kind(wanted) != _kind(got):
            raise WrongOutputError(f"output {number} has type {got.dtype}, expected {wanted.dtype}")
        accepted = max(relative, _HALF.get(str(got.dtype), 0.0))
        wide, narrow = wanted.astype(np.float64), got.astype(np.float64)
        close = np.isclose(narrow, wide, rtol=accepted, atol=absolute, equal_nan=True)
        if not close.all():
            with np.errstate(invalid="ignore"):
                gap = np.abs(narrow - wide)[~close]
            raise WrongOutputError(
                f"output {number} differs in {gap.size} of {close.size} elements, by {gap.flat[0]:.3g} first"
            )


def _kind(array: NDArray[Any]) -> str:
    """Kind of data: floating types count as one, since NumPy lacks some of them."""
    return "floating" if array.dtype.kind in "fV" else str(array.dtype)
