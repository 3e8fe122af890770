"""Programs that are refused by the name of the operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from foretune.compiler.networks.importing.decomposing.errors import ConversionError
from foretune.compiler.networks.importing.torch_import import to_relax
from torch import nn


class Function(nn.Module):
    """A function as a module with a buffer."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> Any:
        return (self.function(self, x),)


def counted(self: Any, x: torch.Tensor) -> torch.Tensor:
    self.count.add_(1)
    return x + 1


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            lambda _, x: torch.nonzero(x),
            "nonzero.default makes a tensor whose shape depends on data; give it",
        ),
        (lambda _, x: x[x > 0], "index.Tensor makes a tensor whose shape depends on data"),
        (lambda _, x: x * x.max().item(), "item.default reads a number of a tensor; keep it a tensor"),
        (
            lambda _, x: x + torch.randn_like(x),
            "randn_like.default draws random numbers; give them as an input",
        ),
        (
            lambda _, x: torch.dropout(x, 0.5, True),
            "dropout.default draws random numbers",
        ),
        (lambda _, x: x.add_(1) * 2, "changes its input x in each run; return the changed one"),
        (counted, "changes its buffer count in each run; give it as an input and return the changed one"),
        (lambda _, x: torch.fft.rfft(x), "an output is complex; return torch.view_as_real of it instead"),
    ],
)
def test_the_operator_is_named(function: Callable[..., Any], message: str) -> None:
    module = Function(function).eval()
    with torch.no_grad():
        program = torch.export.export(module, (torch.ones(2, 3),))
    with pytest.raises(ConversionError, match=message):
        to_relax(program)
