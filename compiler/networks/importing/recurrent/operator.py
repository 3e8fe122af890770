"""Operator of all steps of a recurrent layer, whose number stays a symbol in an exported program.

PyTorch decomposes its recurrent layers into their steps, so that the length of a sequence becomes a number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch.nn import functional

from ....templates.cpu.recurrent.cell import GRU, LSTM, Activation, Cell

NAME = "recurrent.default"
"""Name of the operator in an exported program."""


@torch.library.custom_op(
    "foretune::recurrent",
    mutates_args=(),
    schema="(Tensor shares, Tensor weight, Tensor? bias, Tensor state, Tensor? memory, str cell, "
    "bool[] backwards) -> (Tensor, Tensor)",
)
def recurrent(
    shares: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    state: torch.Tensor,
    memory: torch.Tensor | None,
    cell: str,
    backwards: list[bool],
) -> tuple[torch.Tensor, torch.Tensor]:
    """All steps of a recurrent layer in all of its directions.

    Args:
        shares: share of the input in each gate, [steps, batch, directions * gates * hidden].
        weight: recurrent weights, [directions, gates * hidden, hidden].
        bias: bias of a product that a GRU resets after it, [directions, hidden], or None.
        state: state before the first step, [directions, batch, hidden].
        memory: memory of an LSTM before the first step, of the same shape, or None.
        cell: the cell, see `Cell.text`.
        backwards: for each direction, whether it starts at the last step.

    Returns the states of all steps [steps, batch, directions * hidden] and the last memory, or the last state
    of a cell without a memory, [directions, batch, hidden].
    """
    parsed = Cell.parsed(cell)
    series: list[torch.Tensor] = []
    ends: list[torch.Tensor] = []
    for place, share in enumerate(shares.chunk(len(backwards), -1)):
        steps = list(share.flip(0) if backwards[place] else share)
        late = bias[place] if bias is not None else None
        now, kept = state[place], memory[place] if memory is not None else None
        found = []
        for step in steps:
            now, kept = _step(parsed, step, weight[place], late, now, kept)
            found.append(now)
        series.append(torch.stack(found[::-1] if backwards[place] else found))
        ends.append(now if kept is None else kept)
    return torch.cat(series, -1), torch.stack(ends)


@recurrent.register_fake
def _shapes(
    shares: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    state: torch.Tensor,
    memory: torch.Tensor | None,
    cell: str,
    backwards: list[bool],
) -> tuple[torch.Tensor, torch.Tensor]:
    directions, hidden = len(backwards), weight.shape[-1]
    steps, batch = shares.shape[:2]
    return shares.new_empty(steps, batch, directions * hidden), shares.new_empty(directions, batch, hidden)


def _step(
    cell: Cell,
    share: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    state: torch.Tensor,
    memory: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """State and memory after one step of one direction."""

    def active(place: int, x: torch.Tensor) -> torch.Tensor:
        return activated(cell.activations[place], x if cell.clip is None else x.clamp(-cell.clip, cell.clip))

    if cell.kind == LSTM:
        assert memory is not None
        enter, leave, candidate, outer = (share + state @ weight.T).chunk(4, -1)
        enter = active(0, enter)
        leave = 1 - enter if cell.coupled else active(0, leave)
        memory = leave * memory + enter * active(1, candidate)
        return active(0, outer) * activated(cell.activations[2], memory), memory
    if cell.kind == GRU:
        hidden = state.shape[-1]
        of_gates, of_candidate = weight[: 2 * hidden], weight[2 * hidden :]
        gates, candidate = share[:, : 2 * hidden], share[:, 2 * hidden :]
        reset, update = active(0, gates + state @ of_gates.T).chunk(2, -1)
        if cell.early_reset:
            candidate = active(1, candidate + (reset * state) @ of_candidate.T)
        else:
            late = functional.linear(state, of_candidate, bias)
            candidate = active(1, candidate + reset * late)
        return (1 - update) * candidate + update * state, None
    return active(0, share + state @ weight.T), None


def activated(activation: Activation, x: torch.Tensor) -> torch.Tensor:
    """The activation of a tensor."""
    return _ACTIVATIONS[activation.name](x, activation.alpha, activation.beta)


_ACTIVATIONS: Mapping[str, Callable[[torch.Tensor, float, float], torch.Tensor]] = {
    "Sigmoid": lambda x, *_: torch.sigmoid(x),
    "Tanh": lambda x, *_: torch.tanh(x),
    "Relu": lambda x, *_: torch.relu(x),
    "LeakyRelu": lambda x, alpha, _: functional.leaky_relu(x, alpha),
    "ThresholdedRelu": lambda x, alpha, _: torch.where(x > alpha, x, 0.0),
    "Elu": lambda x, alpha, _: functional.elu(x, alpha),
    "HardSigmoid": lambda x, alpha, beta: (alpha * x + beta).clamp(0, 1),
    "Softsign": lambda x, *_: functional.softsign(x),
    "Softplus": lambda x, *_: functional.softplus(x),
}
"""Activations by ONNX's names, with their parameters alpha and beta."""
