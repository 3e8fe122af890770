"""Networks with symbolic extents as fused TIR functions, and as scheduled ones."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from typing import Any

import tvm
from torch import nn
from torch.export import ExportedProgram
from tvm import relax
from tvm.target import Target

from ....errors import UserError
from ...codegen.plain_schedules import plainly_scheduled
from ...dynamic.symbols import DynamicShapeError
from ...templates.cpu.dynamic.families import FamilyTask, with_families
from ...templates.cpu.dynamic.measured_kernels import Measure
from ...templates.cpu.dynamic.nodes import is_scheduled
from ...types import INTEGERS
from ..extraction import NetworkExportError
from ..importing import torch_import
from ..importing.onnx_torch.graph_module import OnnxModule
from ..importing.recurrent.conversion import KIND
from ..inputs import example_inputs
from ..loading import Network, kind_and_line
from ..lowering.buildable import LOWERING, Stage
from ..lowering.fold_batch_norm import fold_batch_norm
from ..lowering.lowering import AS_FASTEST, Lowering, lower
from .attention import with_attention
from .beyond import any_size
from .dynamic_inputs import DynamicInputs
from .symbolic_export import check_guards, export, guards_of
from .symbolic_import import SymbolicImporter
from .views import with_views


def to_symbolic_relax(
    network: Network,
    dynamic: DynamicInputs,
    target: Target,
    lowering: Lowering = AS_FASTEST,
    stage: Stage = nullcontext,
    *,
    bounded: bool = True,
) -> tvm.IRModule:
    """The network as fused TIR functions and a Relax `main`, whose inputs have the symbols as extents.

    Args:
        network: a PyTorch module or an ONNX file, with example inputs for `dynamic.traced`.
        dynamic: shapes of the inputs.
        target: a CPU.
        lowering: options of the lowering; alternatives to convolutions do not apply.
        stage: a clock's context for each step, by its name.
        bounded: whether the memory may be planned for the ranges, so that no larger input runs.

    Raises DynamicShapeError, NetworkExportError, and MissingInstructionError if the target has no products of
    `lowering.dtype`.
    """
    lowering.check_for(target)
    if lowering.data_type.network == INTEGERS:
        raise DynamicShapeError(
            f"lowering.dtype={lowering.dtype}: dynamic shapes do not support it; use bfloat16 or float32, or "
            "fixed shapes"
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecations inside the exporters, which users cannot act on
            return _lowered(network, dynamic, target, lowering, stage, bounded)
    except UserError:
        raise
    except Exception as error:  # exporters and passes raise many types
        raise NetworkExportError(
            f"network={network.name}: its conversion with symbolic extents failed: {kind_and_line(error)}; "
            "tune it for fixed shapes"
        ) from error


def _lowered(
    network: Network,
    dynamic: DynamicInputs,
    target: Target,
    lowering: Lowering,
    stage: Stage,
    bounded: bool,
) -> tvm.IRModule:
    with stage("torch.export"):
        program = _program(network, dynamic)
    with stage("conversion to Relax"):
        before = guards_of(program)
        mod = torch_import.to_relax(program, SymbolicImporter(dynamic, target, bounded=bounded))
        check_guards(program, dynamic, before, network.name)
    with stage(LOWERING):
        return lower(fold_batch_norm(mod), target, lowering)


def _program(network: Network, dynamic: DynamicInputs) -> ExportedProgram:
    """The exported program. Raises DynamicShapeError.

    Extents that follow from a size, such as its fourth, may be 1 for a small one, which PyTorch takes for a
    number. So a network that needs the size of its trace is traced again with a larger one.
    """
    module = _module(network)
    try:
        return export(module, network.torch_inputs(), dynamic, network.name)
    except DynamicShapeError:
        larger = dynamic.traced_from(LARGER)
        if larger == dynamic.traced:
            raise
        with suppress(Exception):  # such as a reshape that does not fit; the first error names the line
            inputs = network.with_inputs(example_inputs(dynamic.at(larger), 0)).torch_inputs()
            return export(module, inputs, dynamic, network.name, ones=False)
        raise


LARGER = 61
"""Size of a second trace."""


def for_any_size(
    network: Network, dynamic: DynamicInputs, target: Target, lowering: Lowering = AS_FASTEST
) -> tvm.IRModule:
    """The network for sizes outside of its ranges, with plain schedules and memory of each run's sizes.

    Raises DynamicShapeError for a network that does not work for every size, and NetworkExportError.
    """
    try:
        mod = to_symbolic_relax(network, any_size(dynamic), target, lowering, bounded=False)
    except DynamicShapeError as error:
        raise DynamicShapeError(f"beyond=allow: {error}; or use beyond=refuse") from error
    return plainly_scheduled(mod)


def _module(network: Network) -> nn.Module:
    if network.module is not None:
        return network.module
    assert network.onnx_path is not None
    return OnnxModule(network.onnx_path)


def scheduled(
    mod: tvm.IRModule,
    dynamic: DynamicInputs,
    target: Target,
    measure: Measure | None = None,
    lowering: Lowering = AS_FASTEST,
) -> tuple[tvm.IRModule, list[Mapping[str, Any]]]:
    """The module of `to_symbolic_relax` with a schedule for each function, and a description of each task.

    Attention becomes one function where `lowering` allows it, and 3x3 convolutions may take Winograd's
    algorithm in the tile sizes that it allows. Other symbolic functions are families of
    kernels with a choice at run time, where there is such a family. The others, and functions of fixed
    extents, get plain schedules, unless the importer has made one. `measure` times a few kernels of products;
    see `with_families`. Raises SizeRangeError.
    """
    ranges = dynamic.ranges
    mod = relax.transform.EliminateCommonSubexpr()(mod)
    mod, attention = with_attention(mod, ranges, target, lowering)
    mod = with_views(mod, ranges)
    made = with_families(mod, ranges, target, dynamic.counts, measure, lowering.winograd_tiles)
    rest = [
        var.name_hint
        for var, func in made.module.functions_items()
        if isinstance(func, tvm.tirx.PrimFunc) and not is_scheduled(func)
    ]
    recurrent = [
        FamilyTask(var.name_hint, str(func.attrs[KIND]))
        for var, func in mod.functions_items()
        if KIND in (func.attrs or {})
    ]
    tasks = [*attention, *made.tasks, *recurrent]
    return plainly_scheduled(made.module, rest), [task.as_json() for task in tasks]
