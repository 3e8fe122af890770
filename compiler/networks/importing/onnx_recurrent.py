"""LSTM, GRU and RNN of ONNX in simpler operators, since TVM's importer has none of them.

The product of all steps with the input weights is one node, so a search tunes one task for it. Each step then
adds the product of the previous state. The equations follow ONNX's operator definitions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....errors import UserError
from ...templates.cpu.recurrent.cell import Activation
from .onnx_rewrites.nodes import Graph
from .recurrent.onnx_activations import PARAMETERS, NoActivationError, activations_of


class RecurrentLayerError(UserError, ValueError):
    """A recurrent layer has a feature that cannot be expanded."""


@dataclass(frozen=True)
class _Cell:
    """One operator: its gates in ONNX's order, its default activations and its number of states."""

    gates: int
    activations: tuple[str, ...]
    states: int


CELLS: Mapping[str, _Cell] = {
    "LSTM": _Cell(4, ("Sigmoid", "Tanh", "Tanh"), 2),
    "GRU": _Cell(3, ("Sigmoid", "Tanh"), 1),
    "RNN": _Cell(1, ("Tanh",), 1),
}


def expand(node: Any, shape: Sequence[int], dtype: np.dtype[Any], helper: Any) -> Graph:
    """Nodes in simpler operators that replace a recurrent layer.

    Args:
        node: an ONNX node of a type in CELLS.
        shape: shape of its first input, (steps, batch, features); with `layout=1` (batch, steps, features).
        dtype: data type of the layer.
        helper: the module `onnx.helper`.

    Raises RecurrentLayerError for peepholes, sequence lengths and unknown activations.
    """
    return _Expansion(node, shape, dtype, helper).graph


@dataclass(frozen=True)
class _Direction:
    """Constants of the steps of one direction."""

    recurrent: str
    """Weights of the state, (hidden, gates * hidden)."""
    bias: str | None
    """Bias of the state, (gates * hidden,)."""
    activations: Sequence[Callable[[str], str]]


class _Expansion:
    """Expansion of one layer."""

    def __init__(self, node: Any, shape: Sequence[int], dtype: np.dtype[Any], helper: Any) -> None:
        self.node, self.dtype = node, dtype
        self.cell = CELLS[node.op_type]
        self.options = {one.name: helper.get_attribute_value(one) for one in node.attribute}
        self.inputs = [*node.input, *[""] * (8 - len(node.input))]
        self.graph = Graph(helper, f"{node.name or node.output[0] or node.op_type}/")
        if self.inputs[4]:
            raise self._error("sequence lengths (input 4)", "give sequences of one length")
        if node.op_type == "LSTM" and self.inputs[7]:
            raise self._error("peepholes (input 7)", "use an LSTM without them")
        self.batch_first = bool(self.options.get("layout", 0))
        self.steps, self.batch = (shape[1], shape[0]) if self.batch_first else (shape[0], shape[1])
        self.features, self.hidden = shape[2], int(self.options["hidden_size"])
        self._expand()

    def _error(self, feature: str, remedy: str) -> RecurrentLayerError:
        return RecurrentLayerError(
            f"ONNX node {self.node.name or self.node.output[0]} ({self.node.op_type}): {feature} cannot be "
            f"lowered; {remedy}"
        )

    def _expand(self) -> None:
        g = self.graph
        direction = _text(self.options.get("direction", "forward"))
        reverse = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]
        x = g("Transpose", self.inputs[0], perm=[1, 0, 2]) if self.batch_first else self.inputs[0]
        flat = g.reshape(x, [self.steps * self.batch, self.features])
        ends: list[list[str]] = []
        series: list[list[str]] = []
        for number, backwards in enumerate(reverse):
            hidden, end = self._direction(flat, number, backwards)
            series.append(hidden)
            ends.append(end)
        self._outputs(series, ends)

    def _direction(self, x: str, number: int, backwards: bool) -> tuple[list[str], list[str]]:
        """Hidden states in the order of the input, each (batch, hidden), and the last states."""
        g, gates = self.graph, self.cell.gates * self.hidden
        weight = self._of_direction(self.inputs[1], number, [gates, self.features])
        recurrent = g(
            "Transpose", self._of_direction(self.inputs[2], number, [gates, self.hidden]), perm=[1, 0]
        )
        product = g("MatMul", x, g("Transpose", weight, perm=[1, 0]))
        state_bias = None
        if self.inputs[3]:
            bias = self._of_direction(self.inputs[3], number, [2 * gates])
            product = g("Add", product, g.part(bias, 0, gates, 0))
            state_bias = g.part(bias, gates, 2 * gates, 0)
        states = [self._initial(5 + index, number) for index in range(self.cell.states)]
        step = {"LSTM": self._lstm, "GRU": self._gru, "RNN": self._rnn}[self.node.op_type]
        layer = _Direction(recurrent, state_bias, self._activations(number))
        hidden = [""] * self.steps
        for time in reversed(range(self.steps)) if backwards else range(self.steps):
            now = g.part(product, time * self.batch, (time + 1) * self.batch, 0)
            states = step(now, states, layer)
            hidden[time] = states[0]
        return hidden, states

    def _of_direction(self, x: str, number: int, shape: Sequence[int]) -> str:
        return self.graph.reshape(self.graph.part(x, number, number + 1, 0), shape)

    def _initial(self, index: int, number: int) -> str:
        shape = [self.batch, self.hidden]
        if not self.inputs[index]:
            return self.graph.constant(np.zeros(shape, self.dtype))
        axis = 1 if self.batch_first else 0
        return self.graph.reshape(self.graph.part(self.inputs[index], number, number + 1, axis), shape)

    def _activations(self, number: int) -> list[Callable[[str], str]]:
        """Activations of a direction, with their parameters in the order of the operator's definition."""
        try:
            found = activations_of(self.options, self.cell.activations, number + 1)[number]
        except NoActivationError as error:
            raise self._error(f"activation {error}", f"use one of {', '.join(PARAMETERS)}") from error
        return [self._activation(one, place < 2) for place, one in enumerate(found)]

    def _activation(self, activation: Activation, clipped: bool) -> Callable[[str], str]:
        # ONNX Runtime does not clip the memory of an LSTM (its third activation).
        clip = self.options.get("clip") if clipped else None
        values = zip(("alpha", "beta"), (activation.alpha, activation.beta), strict=True)
        attributes = dict([*values][: len(PARAMETERS[activation.name])])

        def apply(x: str) -> str:
            if clip is not None:
                low, high = (self.graph.constant(np.array(value, self.dtype)) for value in (-clip, clip))
                x = self.graph("Min", self.graph("Max", x, low), high)
            return self.graph(activation.name, x, **dict[str, Any](attributes))

        return apply

    def _gate(self, x: str, index: int) -> str:
        return self.graph.part(x, index * self.hidden, (index + 1) * self.hidden, 1)

    def _sum(self, *terms: str | None) -> str:
        names = [term for term in terms if term is not None]
        total = names[0]
        for name in names[1:]:
            total = self.graph("Add", total, name)
        return total

    def _lstm(self, now: str, states: Sequence[str], layer: _Direction) -> list[str]:
        g, (hidden, memory), (f, inner, outer) = self.graph, states, layer.activations
        gates = self._sum(now, g("MatMul", hidden, layer.recurrent), layer.bias)
        enter, leave, forget, candidate = (self._gate(gates, index) for index in range(4))
        enter = f(enter)
        if self.options.get("input_forget", 0):
            forget = g("Sub", g.constant(np.array(1, self.dtype)), enter)
        else:
            forget = f(forget)
        memory = g("Add", g("Mul", forget, memory), g("Mul", enter, inner(candidate)))
        return [g("Mul", f(leave), outer(memory)), memory]

    def _gru(self, now: str, states: Sequence[str], layer: _Direction) -> list[str]:
        g, (hidden,), (f, inner), size = self.graph, states, layer.activations, self.hidden
        recurrent, bias = layer.recurrent, layer.bias
        update_reset = g.part(now, 0, 2 * size, 1)
        candidate = self._gate(now, 2)
        together = self.options.get("linear_before_reset", 0)
        biases = (
            (None, None)
            if bias is None
            else (g.part(bias, 0, 2 * size, 0), g.part(bias, 2 * size, 3 * size, 0))
        )
        if together:
            product = g("MatMul", hidden, recurrent)
            gates = f(self._sum(update_reset, g.part(product, 0, 2 * size, 1), biases[0]))
            update, reset = g.part(gates, 0, size, 1), g.part(gates, size, 2 * size, 1)
            rest = g("Mul", reset, self._sum(self._gate(product, 2), biases[1]))
            candidate = inner(self._sum(candidate, rest))
        else:
            of_gates, of_candidate = g.part(recurrent, 0, 2 * size, 1), self._gate(recurrent, 2)
            gates = f(self._sum(update_reset, g("MatMul", hidden, of_gates), biases[0]))
            update, reset = g.part(gates, 0, size, 1), g.part(gates, size, 2 * size, 1)
            rest = g("MatMul", g("Mul", reset, hidden), of_candidate)
            candidate = inner(self._sum(candidate, rest, biases[1]))
        kept = g("Sub", g.constant(np.array(1, self.dtype)), update)
        return [g("Add", g("Mul", kept, candidate), g("Mul", update, hidden))]

    def _rnn(self, now: str, states: Sequence[str], layer: _Direction) -> list[str]:
        product = self.graph("MatMul", states[0], layer.recurrent)
        return [layer.activations[0](self._sum(now, product, layer.bias))]

    def _outputs(self, series: Sequence[Sequence[str]], ends: Sequence[Sequence[str]]) -> None:
        g, outputs = self.graph, [*self.node.output, "", "", ""]
        directions = len(series)
        if outputs[0]:
            shape = [self.steps, 1, self.batch, self.hidden]
            along = [g.reshape(g("Concat", *hidden, axis=0), shape) for hidden in series]
            whole = g("Concat", *along, axis=1)  # (steps, directions, batch, hidden)
            perm = [2, 0, 1, 3] if self.batch_first else [0, 1, 2, 3]
            g("Transpose", whole, output=outputs[0], perm=perm)
        for index, name in enumerate(outputs[1 : 1 + self.cell.states]):
            if name:
                last = g("Concat", *(end[index] for end in ends), axis=0)
                whole = g.reshape(last, [directions, self.batch, self.hidden])
                g("Transpose", whole, output=name, perm=[1, 0, 2] if self.batch_first else [0, 1, 2])


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
