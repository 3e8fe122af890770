"""Conversion of the operator of all steps to a call of its kernel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import fx
from tvm import relax, tirx
from tvm.target import Target

from ....templates.cpu.dynamic.prediction import Machine
from ....templates.cpu.recurrent.cell import Cell
from ....templates.cpu.recurrent.kernel import recurrent_function
from ....templates.cpu.recurrent.layer import RecurrentLayer
from ..decomposing.errors import ConversionError

KIND = "foretune.kind"
"""Attribute of a function with the kind of its task."""

RECURRENT = "recurrent"
"""Kind of a task that runs all steps of a recurrent layer."""


def call_of_kernel(
    node: fx.Node, importer: Any, weights: Mapping[str, torch.Tensor], target: Target
) -> relax.Var:
    """The call of the kernel that a node becomes: a tuple of two tensors.

    Args:
        node: a node of the operator.
        importer: TVM's importer, which has the symbols of PyTorch in `extents`.
        weights: values of constants by the names of their placeholders.
        target: a CPU.

    Raises ConversionError for weights that depend on an input.
    """
    arguments: Any = node.args
    shares, weight, bias, state, memory, text, backwards = arguments
    if weight.name not in weights:
        raise ConversionError("a recurrent layer has weights that depend on an input")
    machine = Machine.of(target)
    values = weights[weight.name].detach().numpy()
    cell, hidden = Cell.parsed(text), values.shape[-1]
    layer = RecurrentLayer(cell, tuple(backwards), hidden, machine.lanes, machine.registers, machine.cores)
    steps, batch = (
        extent if isinstance(extent, int) else tirx.Var(name, "int64")
        for name, extent in zip(("steps", "batch"), shares.meta["val"].shape, strict=False)
    )
    function = recurrent_function(layer, steps, batch).with_attr(KIND, RECURRENT)
    builder = importer.block_builder
    given = [importer.env[one] for one in (shares, bias, state, memory) if one is not None]
    given.insert(1, relax.const(layer.packed(values)))
    kinds = [relax.TensorType(importer.extents(one.shape), "float32") for one in node.meta["val"]]
    return builder.emit(relax.call_tir(builder.add_func(function, RECURRENT), given, kinds))
