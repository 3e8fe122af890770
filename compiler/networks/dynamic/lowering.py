"""Networks with symbolic extents as fused TIR functions."""

from __future__ import annotations

import tvm
from tvm import relax
from tvm.target import Target

from ..importing import torch_import
from ..loading import Network
from ..lowering.fold_batch_norm import fold_batch_norm
from ..lowering.lowering import Lowering, lower
from .dynamic_inputs import DynamicInputs
from .symbolic_export import check_guards, export
from .symbolic_import import SymbolicImporter


def to_symbolic_relax(network: Network, dynamic: DynamicInputs, target: Target) -> tvm.IRModule:
    program = export(network.module, network.torch_inputs(), dynamic, network.name)
    mod = torch_import.to_relax(program, SymbolicImporter(dynamic))
    check_guards(program, dynamic.symbols, network.name)
    return lower(fold_batch_norm(mod), target, Lowering())
