"""PyTorch's recurrent layers as operators of all steps: PyTorch's own functions are the reference."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from foretune.compiler.networks.importing.recurrent.layers import RecurrentFormError, RecurrentLayers
from foretune.compiler.networks.importing.recurrent.operator import recurrent
from torch import nn
from torch.overrides import TorchFunctionMode

OPTIONS: list[tuple[type[nn.RNNBase], dict[str, Any]]] = [
    *((kind, {"bidirectional": True, "num_layers": 2}) for kind in (nn.LSTM, nn.GRU, nn.RNN)),
    (nn.LSTM, {"batch_first": True, "bias": False}),
    (nn.GRU, {"bias": False}),
    (nn.RNN, {"nonlinearity": "relu"}),
]


class Calls(TorchFunctionMode):
    """Counts the calls of PyTorch's recurrent functions."""

    count = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func in (torch._VF.lstm, torch._VF.gru, torch._VF.rnn_tanh, torch._VF.rnn_relu)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(("kind", "options"), OPTIONS)
@pytest.mark.parametrize("batched", [True, False])
def test_outputs_and_states_are_pytorchs(
    kind: type[nn.RNNBase], options: dict[str, Any], batched: bool
) -> None:
    torch.manual_seed(0)
    module = kind(6, 5, **options).eval()
    x = torch.randn(*((3, 4) if batched else (3,)), 6)
    with torch.no_grad():
        series, states = module(x)
        with Calls() as calls, RecurrentLayers():
            found, found_states = module(x)
    assert calls.count == 0
    torch.testing.assert_close(found, series)
    for one, other in zip(found_states, states, strict=True):
        torch.testing.assert_close(one, other)


def test_the_state_before_the_first_step_is_read() -> None:
    module, x = nn.LSTM(6, 5).eval(), torch.randn(3, 2, 6)
    states = torch.randn(1, 2, 5), torch.randn(1, 2, 5)
    with torch.no_grad():
        expected, _ = module(x, states)
        with RecurrentLayers():
            torch.testing.assert_close(module(x, states)[0], expected)


def test_projections_of_a_fixed_length_stay_pytorchs() -> None:
    module, x = nn.LSTM(6, 5, proj_size=2).eval(), torch.randn(3, 2, 6)
    with torch.no_grad(), Calls() as calls, RecurrentLayers():
        module(x)
    assert calls.count == 1


def test_packed_sequences_are_refused_by_name() -> None:
    x, lengths = torch.randn(3, 2, 6), torch.tensor([3, 2])
    with (
        RecurrentLayers(),
        pytest.raises(RecurrentFormError, match=r"pack_padded_sequence: the lengths depend"),
    ):
        nn.utils.rnn.pack_padded_sequence(x, lengths)


def test_shapes_of_the_operator_are_those_of_its_results() -> None:
    arguments = (torch.randn(3, 2, 8), torch.randn(2, 4, 4), None, torch.randn(2, 2, 4), None)
    cell = '{"kind": "RNN", "activations": [{"name": "Tanh"}]}'
    torch.library.opcheck(recurrent, (*arguments, cell, [False, True]))
