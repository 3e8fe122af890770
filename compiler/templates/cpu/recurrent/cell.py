"""Cells of recurrent layers: gates, activations and options. Works without TVM and PyTorch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

LSTM, GRU, RNN = "LSTM", "GRU", "RNN"

GATES: Mapping[str, int] = {LSTM: 4, GRU: 3, RNN: 1}
"""Number of gates by kind, in PyTorch's order: input, forget, candidate and output of an LSTM; reset, update
and candidate of a GRU."""


@dataclass(frozen=True)
class Activation:
    """Activation by ONNX's name, with its parameters."""

    name: str
    alpha: float = 0.0
    beta: float = 0.0


SIGMOID, TANH, RELU = map(Activation, ("Sigmoid", "Tanh", "Relu"))


@dataclass(frozen=True)
class Cell:
    """Computation of one step from its share of the input and the state before it."""

    kind: str
    """One of GATES."""
    activations: tuple[Activation, ...]
    """Of an LSTM: gates, candidate, memory. Of a GRU: gates, candidate. Of an RNN: candidate."""
    clip: float | None = None
    """Bound of the arguments of activations, except for the memory of an LSTM; None for none."""
    coupled: bool = False
    """Whether the forget gate of an LSTM is 1 minus its input gate."""
    early_reset: bool = False
    """Whether a GRU resets its state before the product with the recurrent weights, and not after it."""

    @property
    def gates(self) -> int:
        return GATES[self.kind]

    @property
    def has_memory(self) -> bool:
        """Whether the state has a second part."""
        return self.kind == LSTM

    @property
    def has_late_bias(self) -> bool:
        """Whether a bias is added to a product that a gate multiplies afterwards."""
        return self.kind == GRU and not self.early_reset

    @property
    def text(self) -> str:
        """The cell as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def parsed(cls, text: str) -> Cell:
        """The cell of a `text`."""
        fields: dict[str, Any] = json.loads(text)
        return cls(**{**fields, "activations": tuple(Activation(**one) for one in fields["activations"])})


PLAIN_CELLS: Mapping[str, Cell] = {
    LSTM: Cell(LSTM, (SIGMOID, TANH, TANH)),
    GRU: Cell(GRU, (SIGMOID, TANH)),
    RNN: Cell(RNN, (TANH,)),
}
"""Cells with their usual activations, as in PyTorch."""
