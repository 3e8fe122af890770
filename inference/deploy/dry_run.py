"""Dry run of a network before its search: it is converted, compiled without a search, run and compared.

A fault in an importer or in a pass changes the outputs whatever the schedules are. The dry run finds it in
seconds, before a search of minutes.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import tvm
from numpy.typing import NDArray
from tvm import relax
from tvm.target import Target

from ...compiler.codegen.lifted_constants import with_lifted_constants
from ...compiler.codegen.passes import improve_code
from ...compiler.codegen.plain_schedules import compiled_plainly
from ...compiler.networks import AS_FASTEST, LoweredNetwork, Lowering, Network, lowered_network, to_relax
from ...compiler.networks.lowering.buildable import Stage
from ...compiler.networks.prefixes import first_wrong, prefixes_of
from ...compiler.tvm_compat import parse_target, runs_here
from ...compiler.types import WIDE
from ...errors import UserError, first_line
from .arrays import flatten
from .compile import compile_network
from .original import Original, Run, comparison_with_original
from .outputs import OutputFormError

DRY_RUN = "run once before the search"
"""Stage of the dry run."""


_REMEDY = "no search can correct this: compute this part of the network by other operators"


SEARCH_S = 90.0
"""Seconds after which the search for the wrong operator ends."""


ENOUGH_S = 5.0
"""Seconds of runs after which no further inputs are compared: the tuned network runs on all."""


class WrongConversionError(UserError, RuntimeError):
    """The converted network computes other outputs than the original."""


def checked_lowering(
    network: Network,
    target: Target,
    lowering: Lowering = AS_FASTEST,
    stage: Stage = nullcontext,
    original: Original | None = None,
    *,
    cached: bool = False,
    waits: bool = True,
) -> LoweredNetwork:
    """`lowered_network`, after the network ran once and its outputs agreed with the original's.

    If the target is this machine's CPU, the lowered module itself runs. Otherwise the network is lowered
    again in float32 for this CPU, which shows faults of the importers, but none that only `target` or
    `lowering.dtype` has. `original` has the inputs and outputs to compare, by default the drawn inputs and
    edge cases. A module of the cache ran in an earlier run. Raises WrongConversionError, OutputFormError, and
    the errors of `lowered_network` and `Original`.
    """

    def check(relax_mod: tvm.IRModule) -> None:
        with stage(DRY_RUN):
            if runs_here(target):
                subject = original or Original(network, lowering.dtype)
                check_conversion(subject, relax_mod, target, lowering)
            else:
                here = parse_target("llvm")
                in_float32 = Original(network) if original is None else original.in_float32()
                check_conversion(in_float32, to_relax(network, here, AS_FASTEST), here)

    return lowered_network(network, target, lowering, stage, check, cached=cached, waits=waits)


def check_conversion(
    original: Original, relax_mod: tvm.IRModule, target: Target, lowering: Lowering = AS_FASTEST
) -> None:
    """Runs a module from `to_relax` on this CPU. Raises WrongConversionError."""
    name, inputs = original.network.name, ""
    try:
        check = original.check(plain_network(relax_mod, target), ENOUGH_S)
        if check.agrees:
            return
        fault, inputs = f"network={name}: after its conversion, {original.describe(check)}", check.inputs
    except OutputFormError as error:
        fault = str(error)
    except UserError:
        raise
    except Exception as error:  # TVM raises several kinds
        fault = f"network={name}: after its conversion, it does not run: {first_line(error)}"
    if lowering.dtype != WIDE:
        raise WrongConversionError(f"{fault}; no search can correct this; use lowering.dtype={WIDE}")
    where = _first_wrong_operator(original.network_with(inputs), target, lowering)
    raise WrongConversionError(f"{fault}; {where}{_REMEDY}")


def _first_wrong_operator(network: Network, target: Target, lowering: Lowering) -> str:
    """The first operator with other values than the original's, as a part of an error; "" if not found."""
    until = time.monotonic() + SEARCH_S

    def agree(count: int) -> bool:
        part = prefixes.first(count)
        if part is None:
            return True
        try:
            run = plain_network(to_relax(part, target, lowering), target)
            return comparison_with_original(part)(run(*part.inputs)).agrees
        except Exception:  # of an operator that cannot be converted or run alone
            return False

    try:
        prefixes = prefixes_of(network)
        first, last = first_wrong(len(prefixes.operators), agree, lambda: time.monotonic() < until)
    except Exception:  # the network has no prefixes, and the fault itself is the error
        return ""
    if first == last:
        return f"the first operator with other values is {prefixes.operators[first]}; "
    return (
        f"the first operator with other values is one of {last - first + 1}, from "
        f"{prefixes.operators[first]} to {prefixes.operators[last]}; "
    )


def plain_network(relax_mod: tvm.IRModule, target: Target) -> Run:
    """A module from `to_relax` with plain schedules, to be called with arrays on this machine's CPU.

    Raises NetworkBuildError.
    """
    improve_code()
    bare, constants = with_lifted_constants(relax_mod)
    try:
        return run_of(compiled_plainly(bare, target), constants)
    except Exception:  # of a function that builds without a schedule alone
        return run_of(compile_network(relax_mod, target).executable)


def run_of(executable: tvm.runtime.Executable, further: Sequence[tvm.runtime.Tensor] = ()) -> Run:
    """A compiled module, to be called with arrays on this machine's CPU.

    `further` are its arguments after these.
    """
    machine = relax.VirtualMachine(executable.jit(), tvm.cpu())

    def run(*inputs: NDArray[Any]) -> list[NDArray[Any]]:
        outputs = machine["main"](*map(tvm.runtime.tensor, inputs), *further)
        return [tensor.numpy() for tensor in flatten(outputs)]

    return run
