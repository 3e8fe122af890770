"""Pooling over one axis as pooling over two: PyTorch's own pooling is the reference."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from foretune.compiler.dynamic.symbols import Extent, Symbol
from foretune.compiler.networks.dynamic.dynamic_inputs import DynamicInputs
from foretune.compiler.networks.dynamic.symbolic_export import export
from foretune.compiler.networks.importing.pooled_axis import PooledAxis
from torch import nn

OPTIONS: list[dict[str, Any]] = [
    {"kernel_size": 3},
    {"kernel_size": 4, "stride": 3, "padding": 2, "ceil_mode": True},
    {"kernel_size": (2,), "stride": (1,), "dilation": 2},
]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("shape", [(2, 3, 11), (3, 11)])
def test_values_are_pytorchs(options: dict[str, Any], shape: tuple[int, ...]) -> None:
    x, pool = torch.randn(shape), nn.MaxPool1d(**options)
    expected = pool(x)
    with PooledAxis():
        torch.testing.assert_close(pool(x), expected)


def test_positions_are_left_to_pytorch() -> None:
    x, pool = torch.randn(2, 3, 11), nn.MaxPool1d(2, return_indices=True)
    with PooledAxis():
        values, positions = pool(x)
    torch.testing.assert_close(x.gather(-1, positions), values)


def test_a_symbolic_length_stays_a_symbol() -> None:
    inputs = DynamicInputs({"n": Symbol("n", 16, 64)}, ((2, 3, Extent("n")),), ({},))
    program = export(nn.MaxPool1d(4), (torch.zeros(2, 3, 23),), inputs, "net")
    (output,) = program.graph.output_node().args[0]  # type: ignore[misc, attr-defined]
    assert str(output.meta["val"].shape[-1].node.expr).count("s") == 1
