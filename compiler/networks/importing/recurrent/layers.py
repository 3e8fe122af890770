"""Recurrent layers of PyTorch and ONNX in terms of the operator of all steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from .....errors import UserError
from ....templates.cpu.recurrent.cell import GRU, LSTM, PLAIN_CELLS, RELU, RNN, Cell
from .operator import recurrent


class RecurrentFormError(UserError, ValueError):
    """A recurrent layer has a form that does not run over a symbolic length."""


@dataclass(frozen=True)
class Direction:
    """Weights of one direction, whose gates are in the order of `GATES`."""

    of_input: torch.Tensor
    """[gates * hidden, features]"""
    of_state: torch.Tensor
    """[gates * hidden, hidden]"""
    bias_of_input: torch.Tensor | None
    """[gates * hidden], or None."""
    bias_of_state: torch.Tensor | None
    backwards: bool


def layer(
    x: torch.Tensor,
    directions: Sequence[Direction],
    cell: Cell,
    state: torch.Tensor,
    memory: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """One recurrent layer.

    Args:
        x: float32 [steps, batch, features].
        directions: one or two directions.
        cell: the cell.
        state: state before the first step, [directions, batch, hidden].
        memory: memory of an LSTM before the first step, of the same shape, or None.

    Returns the states of all steps [steps, batch, directions * hidden], and the last state and the last
    memory, of the shape of `state`. The product of all steps with the input weights is one operator.
    """
    hidden = directions[0].of_state.shape[1]
    biases = [_biases(one, cell, hidden) for one in directions]
    whole = None if biases[0][0] is None else torch.cat([one for one, _ in biases if one is not None])
    late = None
    if cell.has_late_bias:
        zero = directions[0].of_state.new_zeros(hidden)
        late = torch.stack([zero if one is None else one for _, one in biases])
    # PyTorch multiplies each sequence on its own if the axes of `x` were exchanged.
    flat = functional.linear(x.flatten(0, 1), torch.cat([one.of_input for one in directions]), whole)
    shares = flat.unflatten(0, x.shape[:2])
    weight = torch.stack([one.of_state for one in directions])
    backwards = [one.backwards for one in directions]
    series, end = recurrent(shares, weight, late, state, memory, cell.text, backwards)
    lasts = [
        series[0 if one.backwards else -1, :, place * hidden : (place + 1) * hidden]
        for place, one in enumerate(directions)
    ]
    return series, torch.stack(lasts), end if cell.has_memory else None


def _biases(direction: Direction, cell: Cell, hidden: int) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """Bias that is added to the share of the input, and the late one of a GRU."""
    of_input, of_state = direction.bias_of_input, direction.bias_of_state
    if of_input is None or of_state is None:
        return of_input, None
    if not cell.has_late_bias:
        return of_input + of_state, None
    early = of_input + torch.cat([of_state[: 2 * hidden], torch.zeros_like(of_state[2 * hidden :])])
    return early, of_state[2 * hidden :]


class RecurrentLayers(TorchFunctionMode):
    """Context in which PyTorch's recurrent layers are operators of all steps.

    Forms without one raise RecurrentFormError if the length is a symbol, and stay unchanged otherwise.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Calls the function, or computes a recurrent layer."""
        if func is torch._VF._pack_padded_sequence:
            raise RecurrentFormError(
                "pack_padded_sequence: the lengths depend on data; run the layer over the padded sequences"
            )
        if func not in _FUNCTIONS or len(args) != _ARGUMENTS:
            return func(*args, **(kwargs or {}))
        cell = _FUNCTIONS[func]
        x, states, weights, biased, layers, _, training, both, batch_first = args
        reason = _unfit(x, weights, cell, biased, layers, training, both)
        if reason is None:
            return _stacked(x, states, weights, cell, biased, layers, both, batch_first)
        if isinstance(x.shape[1 if batch_first else 0], int):
            return func(*args, **(kwargs or {}))
        raise RecurrentFormError(f"{func.__name__} over a symbolic length: {reason}")


_ARGUMENTS = 9
"""Arguments of a layer over sequences of one length."""

_FUNCTIONS: Mapping[Callable[..., Any], Cell] = {
    torch._VF.lstm: PLAIN_CELLS[LSTM],
    torch._VF.gru: PLAIN_CELLS[GRU],
    torch._VF.rnn_tanh: PLAIN_CELLS[RNN],
    torch._VF.rnn_relu: Cell(RNN, (RELU,)),
}


def _unfit(
    x: torch.Tensor, weights: Sequence[Any], cell: Cell, biased: bool, layers: int, training: bool, both: bool
) -> str | None:
    """Reason why a layer cannot become the operator, with the next step; None if it can."""
    if x.dtype != torch.float32:
        return f"its data type is {str(x.dtype).removeprefix('torch.')}; use float32"
    if training:
        return "it is in training mode; call eval()"
    if len(weights) != layers * (2 if both else 1) * (4 if biased else 2):
        return f"it projects its state; use an {cell.kind} without proj_size, or a fixed length"
    return None


def _stacked(
    x: torch.Tensor,
    states: Any,
    weights: Sequence[torch.Tensor],
    cell: Cell,
    biased: bool,
    layers: int,
    both: bool,
    batch_first: bool,
) -> tuple[torch.Tensor, ...]:
    """Stacked layers, each on the states of the one before it, as PyTorch's functions return them."""
    count, each = (2 if both else 1), (4 if biased else 2)
    state, memory = states if cell.has_memory else (states, None)
    x = x.transpose(0, 1) if batch_first else x
    ends: list[torch.Tensor] = []
    memories: list[torch.Tensor] = []
    for number in range(layers):
        first = number * count
        directions = []
        for place in range(count):
            of_input, of_state, *biases = weights[(first + place) * each :][:each]
            early, late = biases or (None, None)
            directions.append(Direction(of_input, of_state, early, late, backwards=place == 1))
        own = slice(first, first + count)
        x, end, kept = layer(x, directions, cell, state[own], None if memory is None else memory[own])
        ends.append(end)
        if kept is not None:
            memories.append(kept)
    series = x.transpose(0, 1) if batch_first else x
    return (series, torch.cat(ends), *([torch.cat(memories)] if memories else []))
