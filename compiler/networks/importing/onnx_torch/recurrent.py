"""Recurrent layers over any number of steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from ....templates.cpu.recurrent.cell import GRU, LSTM, PLAIN_CELLS, RNN, Cell
from ..recurrent.layers import Direction, layer
from ..recurrent.onnx_activations import NoActivationError, activations_of
from .call import Convert, FixedExtentsError, OperatorCall

_ORDERS: Mapping[str, Sequence[int]] = {LSTM: (0, 2, 3, 1), GRU: (1, 0, 2), RNN: (0,)}
"""Numbers of ONNX's gates in PyTorch's order."""

_DIRECTIONS: Mapping[str, tuple[bool, ...]] = {
    "forward": (False,),
    "reverse": (True,),
    "bidirectional": (False, True),
}
"""For each direction, whether it starts at the last step."""

_LENGTHS, _PEEPHOLES = 4, 7
"""Operands that are refused."""


def _recurrent(call: OperatorCall) -> list[torch.Tensor]:
    if call.has(_LENGTHS):
        raise FixedExtentsError("it has sequence lengths (input 4); give sequences of one length")
    if call.op == LSTM and call.has(_PEEPHOLES):
        raise FixedExtentsError("it has peepholes (input 7); use an LSTM without them")
    backwards = _DIRECTIONS[call.get("direction", "forward")]
    cells = _cells(call, len(backwards))
    first = bool(call.get("layout", 0))
    x = call.tensor().transpose(0, 1) if first else call.tensor()
    if x.dtype != torch.float32:
        raise FixedExtentsError(f"its data type is {str(x.dtype).removeprefix('torch.')}")
    state, memory = _states(call, x, len(backwards), first)
    directions = [_direction(call, place, one) for place, one in enumerate(backwards)]
    if cells[0] == cells[-1]:
        found = [layer(x, directions, cells[0], state, memory)]
    else:  # directions with activations of their own are layers of their own
        found = [
            layer(
                x,
                [one],
                cell,
                state[place : place + 1],
                None if memory is None else memory[place : place + 1],
            )
            for place, (one, cell) in enumerate(zip(directions, cells, strict=True))
        ]
    return _results(found, len(backwards), first)


def _cells(call: OperatorCall, directions: int) -> list[Cell]:
    """The cell of each direction."""
    plain = PLAIN_CELLS[call.op]
    names = ("activations", "activation_alpha", "activation_beta")
    options = {name: call.get(name) for name in names}
    try:
        found = activations_of(options, [one.name for one in plain.activations], directions)
    except NoActivationError as error:
        raise FixedExtentsError(f"foretune has no activation {error}") from error
    return [
        Cell(
            call.op,
            tuple(one),
            call.get("clip"),
            coupled=call.op == LSTM and bool(call.get("input_forget", 0)),
            early_reset=call.op == GRU and not call.get("linear_before_reset", 0),
        )
        for one in found
    ]


def _states(
    call: OperatorCall, x: torch.Tensor, directions: int, first: bool
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """State and memory before the first step, [directions, batch, hidden]; zeros if they are not given."""
    zeros = x.new_zeros(directions, x.shape[1], call.tensor(2).shape[-1])

    def part(place: int) -> torch.Tensor:
        given = call.optional(place)
        if given is None:
            return zeros
        return given.transpose(0, 1) if first else given

    return part(5), part(6) if call.op == LSTM else None


def _direction(call: OperatorCall, place: int, backwards: bool) -> Direction:
    """Weights of a direction, with their gates in PyTorch's order."""
    order = _ORDERS[call.op]

    def ordered(weight: torch.Tensor) -> torch.Tensor:
        gates = weight.chunk(len(order))
        return torch.cat([gates[gate] for gate in order])

    of_input, of_state = (ordered(call.tensor(index)[place]) for index in (1, 2))
    bias = call.optional(3)
    if bias is None:
        return Direction(of_input, of_state, None, None, backwards)
    early, late = (ordered(part) for part in bias[place].chunk(2))
    return Direction(of_input, of_state, early, late, backwards)


def _results(
    found: Sequence[tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]], directions: int, first: bool
) -> list[torch.Tensor]:
    """Outputs of the operator: all states, the last ones, and the last memories of an LSTM."""
    series = torch.cat([one for one, *_ in found], -1)
    whole = series.unflatten(-1, (directions, -1))  # [steps, batch, directions, hidden]
    lasts = [torch.cat([one[1] for one in found])]
    if all(one[2] is not None for one in found):
        lasts.append(torch.cat([one[2] for one in found if one[2] is not None]))
    if first:
        return [whole.transpose(0, 1), *(one.transpose(0, 1) for one in lasts)]
    return [whole.transpose(1, 2), *lasts]


RECURRENT: Mapping[str, Convert] = dict.fromkeys(PLAIN_CELLS, _recurrent)
"""Conversions by operator."""
