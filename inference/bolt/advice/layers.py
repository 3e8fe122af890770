"""Layers of a network: its convolutions and products, which can be built in other ways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import tvm
import tvm_ffi
from tvm import te, tirx
from tvm.ir import Call
from tvm.ir.expr import TensorLoad
from tvm.s_tir.analysis import find_anchor_sblock
from tvm.s_tir.stmt import SBlock
from tvm.tirx import BufferStore

from ....compiler.operators import OPERATOR_SETTINGS
from ....compiler.operators.convolutions.base import Convolution
from ....compiler.operators.dense import Dense
from ....compiler.operators.settings import OperatorSettings
from ....compiler.operators.shared.checks import SettingsError
from ....compiler.task import Task, count_flops
from ....compiler.tvm_compat import as_task_module
from .activations import ACTIVATIONS, NONE


@dataclass(frozen=True)
class Variant:
    """One form of a layer: the operator with the inputs added to its output, then an activation."""

    settings: OperatorSettings
    activation: str = NONE
    """One of ACTIVATIONS."""

    def task(self, name: str, weight: int = 0) -> Task:
        """The layer as a task, with the same TIR as the import of a network that contains it."""
        then = None if self.activation == NONE else ACTIVATIONS[self.activation]
        mod = as_task_module(self.settings.prim_func(then))
        return Task(
            name=name,
            mod=mod,
            weight=weight,
            source="operator",
            operator=self.settings.operator,
            settings=self.settings.to_dict(),
            flops=count_flops(mod),
        )


@dataclass(frozen=True, eq=False)
class Layer:
    """A convolution or product of a network."""

    of_network: Task
    """Task of the layer in the network."""
    variant: Variant
    """Form of the layer in the network."""

    @cached_property
    def task(self) -> Task:
        """The layer built from its settings.

        This is the network's own task, with its workload hash, unless the network has the data in more axes,
        as transformers do.
        """
        return self.variant.task(self.of_network.name, self.of_network.weight)

    def changed(self, variant: Variant) -> Task:
        """The layer in another form, with its weight in the network."""
        return variant.task(self.of_network.name, self.of_network.weight)

    @property
    def name(self) -> str:
        """Operator, channels, size of the data, kernel and stride: conv2d 64>128 56x56 3x3/2."""
        settings = self.variant.settings
        if isinstance(settings, Dense):
            return f"dense {settings.in_features}>{settings.out_features} {settings.rows} rows"
        assert isinstance(settings, Convolution)
        shape, kernel = _joined_by_x(settings.input_size), _joined_by_x(settings.window("kernel"))
        strides = set(settings.window("stride"))
        stride = "" if strides == {1} else f"/{max(strides)}"
        depthwise = settings.group_count == settings.filters > 1
        channels = f"{settings.filters}" if depthwise else f"{settings.in_channels}>{settings.filters}"
        return f"{settings.operator} {channels} {shape} {kernel}{stride}"


def read_layers(tasks: Sequence[Task]) -> list[Layer]:
    """Layers among the tasks of a network, in the order of the tasks.

    Excluded are operators other than convolutions and linear layers, data types that no operator supports,
    and epilogues with other steps (`read_epilogue`).
    """
    return [layer for task in tasks if (layer := _read(task)) is not None]


def _read(task: Task) -> Layer | None:
    operator = OPERATOR_SETTINGS.get(task.operator)
    if operator is None or not issubclass(operator, (Convolution, Dense)):
        return None
    epilogue = read_epilogue(task.mod)
    if epilogue is None:
        return None
    try:
        plain = operator.from_dict(task.settings)
        settings = replace(plain, epilogue=epilogue.added)
    except SettingsError:  # a data type, or an order of added inputs, that the operator does not support
        return None
    return Layer(task, Variant(settings, epilogue.activation))


def _joined_by_x(extents: Sequence[int]) -> str:
    return "x".join(map(str, extents))


Signature = tuple[str, ...]
"""Values that the blocks of an epilogue store, one text per block, with names for the tensors it reads."""


@dataclass(frozen=True)
class OperatorEpilogue:
    """Element-wise steps after an operator."""

    added: str
    """Steps that add an input, named as in `OperatorSettings.epilogue`: "none", "bias", "bias_add", ..."""
    activation: str
    """One of ACTIVATIONS."""


def read_epilogue(mod: tvm.IRModule) -> OperatorEpilogue | None:
    """The epilogue of an unscheduled `main`; None if it has other steps or no reduction.

    The values that steps store identify them. An input that is added after the activation, such as a
    residual, counts as another step.
    """
    anchor = find_anchor_sblock(mod)
    if anchor is None:
        return None
    blocks = _blocks(mod["main"])
    names = [block.name_hint for block in blocks]
    behind = blocks[names.index(anchor.name_hint) + 1 :]
    current = anchor.writes[0].source
    inputs = set(mod["main"].params)
    added: list[str] = []
    while behind and (step := _added(behind[0], current, inputs)):
        added.append(step)
        current = behind.pop(0).writes[0].source
    activation = _known().get(_signature(behind, current))
    return None if activation is None else OperatorEpilogue("_".join(added) or NONE, activation)


@lru_cache(maxsize=1)
def _known() -> Mapping[Signature, str]:
    """Activation by its signature."""
    known: dict[Signature, str] = {}
    for name, activation in ACTIVATIONS.items():
        data = te.placeholder((2, 3), name="data")
        if name == NONE:
            known[()] = name
            continue
        func = te.create_prim_func([data, activation(data)])
        known[_signature(_blocks(func), func.params[0])] = name
    return known


def _blocks(func: tirx.PrimFunc) -> list[SBlock]:
    """Blocks that compute values, in their order."""
    found: list[SBlock] = []
    tvm_ffi.structural_walk(func.body, (SBlock, found.append))
    return [block for block in found if block.writes]


def _added(block: SBlock, current: Any, inputs: set[Any]) -> str:
    """The step that adds an input of the function to `current`; "" for a block of another kind."""
    value = _stored(block)
    if not isinstance(value, tirx.Add):
        return ""
    sides = [side for side in (value.a, value.b) if isinstance(side, TensorLoad)]
    others = [side.source for side in sides if not side.source.same_as(current)]
    if len(sides) != 2 or len(others) != 1 or others[0] not in inputs:
        return ""
    shapes = [[int(extent) for extent in tensor.ty.shape] for tensor in (others[0], current)]
    return "add" if shapes[0] == shapes[1] else "bias"


def _signature(blocks: Sequence[SBlock], start: Any) -> Signature:
    """The values that blocks store; `x` names the tensor `start`, and t0, t1, ... the blocks' outputs."""
    names = {start: "x"}
    values = []
    for number, block in enumerate(blocks):
        values.append(_text(_stored(block), names))
        names[block.writes[0].source] = f"t{number}"
    return tuple(values)


def _stored(block: SBlock) -> Any:
    """The value that a block without a reduction stores; None for a block of another kind."""
    return block.body.value if isinstance(block.body, BufferStore) and block.init is None else None


def _text(value: Any, names: Mapping[Any, str]) -> str:
    """An expression without the indices that it reads; "?" for a tensor without a name."""
    if isinstance(value, TensorLoad):
        return names.get(value.source, "?")
    if isinstance(value, Call):
        return f"{value.op.name}({', '.join(_text(argument, names) for argument in value.args)})"
    if isinstance(value, tirx.Cast):
        return f"{value.dtype}({_text(value.value, names)})"
    if isinstance(value, tirx.Select):
        parts = (value.condition, value.true_value, value.false_value)
        return f"select({', '.join(_text(part, names) for part in parts)})"
    if hasattr(value, "a") and hasattr(value, "b"):
        return f"{type(value).__name__}({_text(value.a, names)}, {_text(value.b, names)})"
    return f"{value}"
