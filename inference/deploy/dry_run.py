"""Dry run of a network before its search: it is converted, compiled without a search, run and compared.

A fault in an importer or in a pass changes the outputs whatever the schedules are. The dry run finds it in
seconds, before a search of minutes.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import tvm
from numpy.typing import NDArray
from tvm import relax
from tvm.target import Target

from ...compiler.codegen.passes import improve_code
from ...compiler.codegen.plain_schedules import plainly_scheduled
from ...compiler.networks import AS_FASTEST, LoweredNetwork, Lowering, Network, lowered_network, to_relax
from ...compiler.networks.lowering.buildable import Stage
from ...compiler.tvm_compat import parse_target, runs_here
from ...errors import UserError
from .compile import build_context, flatten
from .original import comparison_with_original
from .outputs import OutputCheck

DRY_RUN = "run once before the search"
"""Stage of the dry run."""


class WrongConversionError(UserError, RuntimeError):
    """The converted network computes other outputs than the original."""


def checked_lowering(
    network: Network, target: Target, lowering: Lowering = AS_FASTEST, stage: Stage = nullcontext
) -> LoweredNetwork:
    """`lowered_network`, after the network ran once and its outputs agreed with the original's.

    If the target is this machine's CPU, the lowered module itself runs. Otherwise the network is lowered
    again in float32 for this CPU, which shows faults of the importers, but none that only `target` or
    `lowering.dtype` has. Raises WrongConversionError, OutputFormError, and the errors of `lowered_network`.
    """
    lowered = lowered_network(network, target, lowering, stage)
    with stage(DRY_RUN):
        if runs_here(target):
            check_conversion(network, lowered.relax_mod, target, lowering)
        else:
            here = parse_target("llvm")
            check_conversion(network, to_relax(network, here, AS_FASTEST), here, AS_FASTEST)
    return lowered


def check_conversion(network: Network, relax_mod: tvm.IRModule, target: Target, lowering: Lowering) -> None:
    """Runs a module from `to_relax` on this CPU. Raises WrongConversionError, OutputFormError."""
    check = comparison_with_original(network, lowering.dtype)(run_plainly(relax_mod, target, network.inputs))
    if not check.agrees:
        raise WrongConversionError(_wrong(network, check))


def run_plainly(
    relax_mod: tvm.IRModule, target: Target, inputs: Sequence[NDArray[Any]]
) -> list[NDArray[Any]]:
    """Outputs of a module from `to_relax`, with plain schedules on this machine's CPU."""
    improve_code()
    with build_context(target):
        executable = tvm.compile(plainly_scheduled(relax_mod), target=target)
    machine = relax.VirtualMachine(executable.jit(), tvm.cpu())
    outputs = machine["main"](*(tvm.runtime.tensor(array) for array in inputs))
    return [tensor.numpy() for tensor in flatten(outputs)]


def _wrong(network: Network, check: OutputCheck) -> str:
    return (
        f"network={network.name}: after its conversion, {check.describe()}; no search can correct this, so "
        "none was started: compute this part of the network by other operators"
    )
