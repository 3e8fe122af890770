"""Check of one network: the product converts it, compiles it, runs it and compares its outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import tvm
from foretune.compiler.codegen.passes import improve_code
from foretune.compiler.networks import to_relax
from foretune.compiler.networks.lowering import buildable
from foretune.compiler.tvm_compat import parse_target
from foretune.errors import UserError
from foretune.inference.deploy.compile import build_context
from foretune.inference.deploy.dry_run import WrongConversionError, plain_network, run_of
from foretune.inference.deploy.original import Original, Run
from numpy.typing import NDArray
from tvm.target import Target

from .cases import Subject, WrongOutputError


def check_operator(subject: Subject) -> None:
    """Raises a UserError if the product refuses the network, WrongOutputError if it accepts a wrong one.

    The steps are those of `checked_lowering`, which runs before each search. Code is not optimised, since a
    suite compiles thousands of functions that run once.
    """
    _check(subject, _unoptimised)


def check_network(subject: Subject) -> None:
    """The same with plain schedules and optimised code, for whole networks."""
    _check(subject, plain_network)


def _check(subject: Subject, build: Callable[[tvm.IRModule, Target], Run]) -> None:
    network, target = subject.network, parse_target("llvm")
    original = Original(network)
    try:
        with _without_trial_builds():
            run = build(to_relax(network, target), target)
        found = original.check(run)
    except UserError:
        raise
    except Exception:  # the trial builds name the operator that TVM builds no code for, or recast it
        run = plain_network(to_relax(network, target), target)
        found = original.check(run)
    if not found.agrees:
        raise WrongConversionError(
            f"network={network.name}: after its conversion, {original.describe(found)}"
        )
    outputs = run(*(array.copy() for array in network.inputs))
    for place, (wanted, got) in enumerate(zip(subject.expected or (), outputs, strict=False)):
        if difference := mismatch(wanted, got, subject.relative, subject.absolute):
            raise WrongOutputError(f"output {place}: {difference}")


@contextmanager
def _without_trial_builds() -> Iterator[None]:
    """Leaves out the check that TVM builds the code of each kind of function: all of it is built and run."""
    kept = buildable.generate_code
    buildable.generate_code = lambda *_: None
    try:
        yield
    finally:
        buildable.generate_code = kept


def _unoptimised(mod: tvm.IRModule, target: Target) -> Run:
    """A module from `to_relax` as code that is not optimised."""
    improve_code()
    plain = Target(
        {"kind": "llvm", "opt-level": 0, **{key: target.attrs[key] for key in _SAME & {*target.attrs}}}
    )
    with build_context(plain):
        return run_of(tvm.compile(mod, target=plain))


_SAME = {"mcpu", "mattr", "mtriple"}
"""Attributes of a target that define its instructions."""


def mismatch(wanted: NDArray[np.generic], got: NDArray[np.generic], relative: float, absolute: float) -> str:
    """Difference of an output from the expected one in words; empty if they agree.

    Data types and shapes must be equal. A few roundings of the largest element are no difference: sums in
    another order have them.
    """
    if (wanted.dtype, wanted.shape) != (got.dtype, got.shape):
        return f"{got.dtype} of shape {got.shape}, expected {wanted.dtype} of shape {wanted.shape}"
    if wanted.dtype.kind in "biu":
        return "" if np.array_equal(wanted, got) else f"{np.count_nonzero(wanted != got)} elements differ"
    wide, found = (np.asarray(one, np.float64) for one in (wanted, got))
    if wanted.dtype in _FLOATS:
        largest = np.abs(wide).max(initial=0, where=np.isfinite(wide))
        absolute = max(absolute, 2 * np.finfo(wanted.dtype).eps * largest)
    close = np.isclose(found, wide, rtol=relative, atol=absolute, equal_nan=True)
    if close.all():
        return ""
    with np.errstate(invalid="ignore"):
        gap = np.abs(found - wide)
    worst = np.nanmax(np.where(close, 0, gap)) if np.isfinite(gap).any() else np.inf
    return f"{np.count_nonzero(~close)} of {close.size} elements differ, by up to {worst:.3g}"


_FLOATS = (np.float16, np.float32, np.float64)
