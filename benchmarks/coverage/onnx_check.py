"""Check of one ONNX model: the product converts it, compiles it, runs it and compares its outputs."""

from __future__ import annotations

import numpy as np
from foretune.compiler.networks import AS_FASTEST, to_relax
from foretune.compiler.tvm_compat import parse_target
from foretune.inference.deploy.dry_run import WrongConversionError, run_plainly
from foretune.inference.deploy.original import comparison_with_original
from numpy.typing import NDArray

from .cases import Subject, WrongOutputError


def check(subject: Subject) -> None:
    """Raises a UserError if the product refuses the network, WrongOutputError if it accepts a wrong one.

    The steps are those of `checked_lowering`, which runs before each search.
    """
    network, target = subject.network, parse_target("llvm")
    outputs = run_plainly(to_relax(network, target, AS_FASTEST), target, network.inputs)
    found = comparison_with_original(network)(outputs)
    if not found.agrees:
        raise WrongConversionError(f"network={network.name}: after its conversion, {found.describe()}")
    for place, (wanted, got) in enumerate(zip(subject.expected or (), outputs, strict=False)):
        if difference := mismatch(wanted, got, subject.relative, subject.absolute):
            raise WrongOutputError(f"output {place}: {difference}")


def mismatch(wanted: NDArray[np.generic], got: NDArray[np.generic], relative: float, absolute: float) -> str:
    """How an output differs from the expected one; empty if it does not.

    Data types and shapes must be equal.
    """
    if (wanted.dtype, wanted.shape) != (got.dtype, got.shape):
        return f"{got.dtype} of shape {got.shape}, expected {wanted.dtype} of shape {wanted.shape}"
    if wanted.dtype.kind in "biu":
        return "" if np.array_equal(wanted, got) else f"{np.count_nonzero(wanted != got)} elements differ"
    wide, found = (np.asarray(one, np.float64) for one in (wanted, got))
    close = np.isclose(found, wide, rtol=relative, atol=absolute, equal_nan=True)
    if close.all():
        return ""
    with np.errstate(invalid="ignore"):
        gap = np.abs(found - wide)
    worst = np.nanmax(np.where(close, 0, gap)) if np.isfinite(gap).any() else np.inf
    return f"{np.count_nonzero(~close)} of {close.size} elements differ, by up to {worst:.3g}"
