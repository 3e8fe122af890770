"""Networks that do not run for all sizes of a range are refused, with the line of their code."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import sympy
import torch
from foretune.compiler.dynamic.symbols import DynamicShapeError, Extent, Symbol
from foretune.compiler.networks import Network
from foretune.compiler.networks.dynamic.dynamic_inputs import DynamicInputs
from foretune.compiler.networks.dynamic.lowering import to_symbolic_relax
from foretune.compiler.networks.dynamic.symbolic_export import (
    broken_guards,
    check_guards,
    export,
    guards_of,
)
from support.cpus import HERE
from torch import nn

ROWS = DynamicInputs({"n": Symbol("n", 1, 64)}, ((Extent("n"), 4),), ({},))


class Fixed(nn.Module):
    """Adds a weight of seven rows."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(7, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.weight  # demands seven rows


class Odd(nn.Module):
    """Goes another way for an even number of rows."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] % 2 == 0:  # decides by the rows
            return x[::2]
        return x * 2


class Folded(nn.Module):
    """Has seven rows, whatever it is given."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(7, 4)  # writes the number of rows


class Few(nn.Module):
    """Adds a part of twenty rows."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(20, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.weight[: x.shape[0]]  # has twenty rows


class Sum(nn.Module):
    """Adds two inputs."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y


class Columns(nn.Module):
    """Makes a row of each pair of columns; PyTorch asks whether the number of pairs divides 1."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = nn.functional.max_pool2d(x, 2)
        batch, channels, height, width = y.shape
        return y.permute(0, 3, 1, 2).reshape(batch, width, channels * height)


def line_with(text: str) -> str:
    lines = inspect.getsource(inspect.getmodule(Fixed)).splitlines()  # type: ignore[arg-type]
    return f"{__file__}:{next(number for number, line in enumerate(lines, 1) if text in line)}"


@pytest.mark.parametrize(
    ("network", "message", "comment"),
    [
        (Fixed(), "its code works for n=7 alone, with which it was traced", "# demands seven rows"),
        (Odd(), "not all sizes of n=1:64 take the same way through its code", "# decides by the rows"),
        (Few(), "through its code, which demands n <= 20 (", "# has twenty rows"),
    ],
)
def test_the_error_names_the_line(network: nn.Module, message: str, comment: str) -> None:
    with pytest.raises(DynamicShapeError) as error:
        export(network, (torch.zeros(7, 4),), ROWS, "net")
    told = str(error.value)
    assert told.startswith("network=net: ") and message in told and line_with(comment) in told
    assert "\n" not in told


def test_the_error_of_a_second_trace_does_not_replace_the_first_one() -> None:
    """Seven rows of the first trace fit the reshape; 61 rows of the second one do not."""
    network = Network("net", (np.zeros((7, 4), np.float32),), Folded())
    with pytest.raises(DynamicShapeError) as error:
        to_symbolic_relax(network, ROWS, HERE)
    told = str(error.value)
    assert "its code works for n=7 alone" in told and line_with("# writes the number of rows") in told


def test_inputs_that_must_agree_need_one_symbol() -> None:
    symbols = {"n": Symbol("n", 1, 64), "m": Symbol("m", 1, 64)}
    two = DynamicInputs(symbols, ((Extent("n"), 4), (Extent("m"), 4)), ({}, {}))
    with pytest.raises(DynamicShapeError, match=r"(n and m|m and n) must be equal.*give both the same"):
        export(Sum(), (torch.zeros(7, 4), torch.zeros(7, 4)), two, "net")
    with pytest.raises(
        DynamicShapeError, match="its inputs do not fit together for n=7, m=8; give extents that"
    ):
        export(Sum(), (torch.zeros(7, 4), torch.zeros(8, 4)), two, "net")
    same = DynamicInputs({"n": symbols["n"]}, ((Extent("n"), 4), (Extent("n"), 4)), ({}, {}))
    export(Sum(), (torch.zeros(7, 4), torch.zeros(7, 4)), same, "net")


def test_a_decision_of_the_conversion_must_hold_for_the_whole_range() -> None:
    program = export(nn.ReLU(), (torch.zeros(7, 4),), ROWS, "net")
    rows = next(iter(program.graph.find_nodes(op="placeholder"))).meta["val"].shape[0]
    before = guards_of(program)
    assert rows < 100 and rows != 1  # holds for each size over 1 of the range
    check_guards(program, ROWS, before, "net")
    assert rows % 2 == 1  # what a decomposition might ask
    with pytest.raises(DynamicShapeError, match="works only for sizes with"):
        check_guards(program, ROWS, before, "net")


def test_conditions_that_pytorch_cannot_prove_are_tried() -> None:
    x = torch.zeros(1, 2, 4, 9)

    def inputs(low: int) -> DynamicInputs:
        return DynamicInputs({"w": Symbol("w", low, 120)}, ((1, 2, 4, Extent("w")),), ({},))

    program = export(Columns(), (x,), inputs(8), "net")
    assert not program.graph.find_nodes(op="call_function", target=torch.ops.aten._assert_scalar.default)
    with pytest.raises(DynamicShapeError, match="not all sizes of w=2:120 take the same way"):
        export(Columns(), (x,), inputs(2), "net")


def test_an_extent_that_follows_from_a_size_may_be_1() -> None:
    """A fourth of the length is 1 for lengths below 8: the trace has a larger one."""
    inputs = DynamicInputs({"n": Symbol("n", 4, 90)}, ((2, 3, Extent("n")),), ({},))
    network = nn.Sequential(nn.AvgPool1d(4), nn.Conv1d(3, 3, 3, padding=1))
    with pytest.raises(DynamicShapeError):
        export(network, (torch.zeros(2, 3, 7),), inputs, "net")
    program = export(network, (torch.zeros(2, 3, 61),), inputs, "net", ones=False)
    assert not broken_guards(program, guards_of(program))


def test_only_conditions_on_an_extent_of_1_are_left_out() -> None:
    program = export(nn.ReLU(), (torch.zeros(7, 4),), ROWS, "net")
    rows = next(iter(program.graph.find_nodes(op="placeholder"))).meta["val"].shape[0].node.expr
    other = sympy.Symbol("b", integer=True, positive=True)
    for guard in (sympy.Ne(rows // 4, 1), sympy.Ne(other * (rows // 4), other)):
        assert not broken_guards(program, [guard])
    for guard in (sympy.Ne(rows, 9), sympy.Ne(rows % 3, 0), sympy.Ne(8 * rows, 72)):
        assert broken_guards(program, [guard]) == [guard]
