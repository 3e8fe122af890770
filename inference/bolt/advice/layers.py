"""Layers of a network: its convolutions and products, which can be built in other ways."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ....compiler.operators import OPERATOR_SETTINGS
from ....compiler.operators.convolutions.base import Convolution
from ....compiler.operators.dense import Dense
from ....compiler.operators.settings import OperatorSettings
from ....compiler.operators.shared.checks import SettingsError
from ....compiler.task import Task, count_flops
from ....compiler.tvm_compat import as_task_module
from .activations import ACTIVATIONS, NONE
from .epilogue import read_epilogue


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
