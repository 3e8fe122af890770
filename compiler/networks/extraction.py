"""Conversion of networks to Relax, and extraction of their tasks."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
import tvm
from tvm import relax
from tvm.relax.analysis import has_reshape_pattern
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from ...errors import UserError
from ..described_task import described_task
from ..task import Task
from ..tvm_compat import as_task_module, has_blocks, workload_hash
from ..types import INTEGERS
from .importing import onnx_import
from .loading import Network, kind_and_line
from .low_precision.integer_products import in_integers
from .low_precision.quantisation import quantised
from .lowering.buildable import LOWERING, Stage, lower_buildable
from .lowering.fold_batch_norm import fold_batch_norm
from .lowering.lowering import AS_FASTEST, Lowering
from .prefixes import FRAME

CALL_TIR = tvm.ir.Op.get("relax.call_tir")


_EXPORT, _ONNX, _CONVERSION = "torch.export", "reading the ONNX graph", "conversion to Relax"
_OTHER_OPERATORS = "compute this part of the network by other operators or in float32"
_NEXT_STEP = {
    _EXPORT: "the network must run as one graph of fixed shapes, without control flow that depends on data",
    _ONNX: f"{_OTHER_OPERATORS}, or give the PyTorch module instead of the file",
    _CONVERSION: f"{_OTHER_OPERATORS}, or export the network to ONNX and give that file",
    LOWERING: _OTHER_OPERATORS,
}
"""Advice by the step that failed."""


class NetworkExportError(UserError, RuntimeError):
    """The network cannot be converted to functions that TVM builds."""


def to_relax(
    network: Network, target: Target, lowering: Lowering = AS_FASTEST, stage: Stage = nullcontext
) -> tvm.IRModule:
    """The network as fused TIR functions and a Relax `main` that calls them, weights bound as constants.

    `extract_tasks` and compilation both start from this module, so that a tuned task is found again in the
    database. Parts that depend on no input are evaluated, and operators that TVM builds no code for run in
    another data type (`recast_operators`). In int8 the network is quantised first, unless it is already.
    `stage` is a clock's context for each step, by its name. Raises NetworkExportError with the step that
    failed, MissingInstructionError if the target has no products of `lowering.dtype`, and the errors of
    `quantised`.
    """
    lowering.check_for(target)
    in_integer_type = lowering.data_type.network == INTEGERS
    if in_integer_type and network.quantised_path is None:
        with TemporaryDirectory() as folder:
            network = quantised(network, lowering.calibration, Path(folder) / "quantised.onnx")
            return to_relax(network, target, lowering, stage)
    path = network.quantised_path if in_integer_type else network.onnx_path
    if path is not None:
        with stage(_ONNX), _export_step(network, _ONNX):
            mod = onnx_import.to_relax(path, network.inputs)
    else:
        from .importing import torch_import  # its imports last, and a network in the cache needs none

        assert network.module is not None
        with stage(_EXPORT), _export_step(network, _EXPORT):
            program = torch_import.export(network.module, network.torch_inputs())
        with stage(_CONVERSION), _export_step(network, _CONVERSION):
            mod = torch_import.to_relax(program)
    with _export_step(network, LOWERING):
        with stage(LOWERING):
            mod = fold_batch_norm(mod)
            if in_integer_type:
                mod = in_integers(mod)
        return lower_buildable(mod, target, lowering, stage)


def extract_tasks(relax_mod: tvm.IRModule, target: Target, network_name: str) -> list[Task]:
    """The distinct tasks of a module from `to_relax`, in the order of their first calls.

    Plain reshapes are left out: the compiler turns unscheduled ones into views, which cost nothing. So are
    functions without blocks, such as TVM's scatter, which no schedule can change.
    """
    first_calls = _first_calls(relax_mod)
    order = list(first_calls)
    tasks = []
    for extracted in ms.relax_integration.extract_tasks(relax_mod, target):  # in no fixed order
        mod = extracted.dispatched[0]
        if not _is_task(mod["main"]):
            continue
        name, source = first_calls[workload_hash(mod)], f"network:{network_name}"
        tasks.append(described_task(mod, name, int(extracted.weight), source))
    return sorted(tasks, key=lambda task: order.index(task.workload_hash))


def task_names(relax_mod: tvm.IRModule) -> dict[str, str]:
    """Name of each task of `extract_tasks` by workload hash, in its order."""
    calls = _first_calls(relax_mod).items()
    return {workload: name for workload, name in calls if _is_task(relax_mod[name])}


def _is_task(func: tvm.tirx.PrimFunc) -> bool:
    """Whether a search can schedule a function and gains anything by it."""
    return has_blocks(func) and not has_reshape_pattern(func)


def _first_calls(mod: tvm.IRModule) -> dict[str, str]:
    """Workload hash -> name of the TIR function first called with it, in the order of the calls."""
    names: dict[str, str] = {}

    def visit(expr: relax.Expr) -> None:
        if isinstance(expr, relax.Call) and expr.op.same_as(CALL_TIR):
            callee = expr.args[0]
            names.setdefault(workload_hash(as_task_module(mod[callee])), callee.name_hint)

    for func in mod.functions.values():
        if isinstance(func, relax.Function):
            relax.analysis.post_order_visit(func, visit)
    return names


@contextmanager
def _export_step(network: Network, step: str) -> Iterator[None]:
    """Turns an error inside into a NetworkExportError that names the network and the step."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecations inside the exporters, which users cannot act on
            yield
    except UserError:
        raise
    except Exception as error:  # exporters raise many types
        cause = f"{step} failed{_place(error)}: {kind_and_line(error)}"
        raise NetworkExportError(f"network={network.name}: {cause}; {_NEXT_STEP[step]}") from error


_EXECUTED = re.compile(r"While executing %.*?\[target=([\w.]+)\]")


def _place(error: Exception) -> str:
    """Operator that PyTorch ran when it raised an error, and the line that called it; empty if not told."""
    told = str(error)
    if not (operator := _EXECUTED.search(told)):
        return ""
    name = operator[1].removeprefix("torch.ops.")
    frames = FRAME.findall(told)
    users = [frame for frame in frames if not frame[0].startswith(str(Path(torch.__file__).parent))]
    if not (calls := users or frames):
        return f" at {name}"
    file, line = calls[-1]
    return f" at {name} ({Path(file).name}:{line})"
