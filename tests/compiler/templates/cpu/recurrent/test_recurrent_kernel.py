"""Kernel of a recurrent layer, compiled once for all sizes: the operator of PyTorch is the reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import tvm
from foretune.compiler.codegen.compilation import compile_module
from foretune.compiler.instruction_sets import registers_of
from foretune.compiler.networks.importing.recurrent.operator import recurrent
from foretune.compiler.targets import traits
from foretune.compiler.templates.cpu.recurrent.activations import EXPRESSIONS
from foretune.compiler.templates.cpu.recurrent.cell import (
    GRU,
    LSTM,
    PLAIN_CELLS,
    RNN,
    Activation,
    Cell,
)
from foretune.compiler.templates.cpu.recurrent.kernel import recurrent_function
from foretune.compiler.templates.cpu.recurrent.layer import RecurrentLayer
from tvm import tirx

from tests.support.cpus import cpu, require, widest

TARGET = widest(cpu("x86-64-v4"), cpu("x86-64-v3"))
BITS = traits(TARGET).vector_bits or 128

OPTIONS = [
    *((PLAIN_CELLS[kind], (False, True), 20) for kind in (LSTM, GRU, RNN)),
    (Cell(GRU, PLAIN_CELLS[GRU].activations, early_reset=True), (True,), 37),
    (replace(PLAIN_CELLS[LSTM], coupled=True, clip=0.4), (False,), 5),
    (Cell(RNN, (Activation("HardSigmoid", 0.3, 0.4),)), (True, False), 16),
    (PLAIN_CELLS[LSTM], (False, True), 272),
]
"""Cells, directions and hidden units; threads share the last one, one direction after another."""


def drawn(*shape: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32))


def compiled(cell: Cell, backwards: Sequence[bool], hidden: int) -> Callable[..., list[torch.Tensor]]:
    """Function of the operator's tensors, for any number of steps and sequences."""
    layer = RecurrentLayer(cell, tuple(backwards), hidden, BITS // 32, registers_of(BITS))
    function = recurrent_function(layer, tirx.Var("steps", "int64"), tirx.Var("batch", "int64"))
    module = compile_module(tvm.IRModule({"run": function.with_attr("global_symbol", "run")}), TARGET)

    def run(shares: torch.Tensor, weight: torch.Tensor, *rest: torch.Tensor | None) -> list[torch.Tensor]:
        steps, batch = shares.shape[:2]
        shapes = [(steps, batch, len(backwards) * hidden), (len(backwards), batch, hidden)]
        outputs = [tvm.runtime.tensor(np.full(shape, np.nan, np.float32)) for shape in shapes]
        given = [shares.numpy(), layer.packed(weight.numpy()), *(x.numpy() for x in rest if x is not None)]
        module["run"](*map(tvm.runtime.tensor, given), *outputs)
        return [torch.from_numpy(one.numpy()) for one in outputs]

    return run


@pytest.mark.parametrize(("cell", "backwards", "hidden"), OPTIONS)
def test_the_first_some_prime_and_many_sizes(cell: Cell, backwards: tuple[bool, ...], hidden: int) -> None:
    require(TARGET)
    run, directions = compiled(cell, backwards, hidden), len(backwards)
    weight = drawn(directions, cell.gates * hidden, hidden) / hidden**0.5
    for steps, batch in ((1, 1), (2, 3), (7, 2), (13, 11), *((2, batch) for batch in range(4, 11))):
        shares = drawn(steps, batch, directions * cell.gates * hidden)
        bias = drawn(directions, hidden) if cell.has_late_bias else None
        states = [
            drawn(directions, batch, hidden),
            drawn(directions, batch, hidden) if cell.has_memory else None,
        ]
        expected = recurrent(shares, weight, bias, *states, cell.text, list(backwards))
        for found, wanted in zip(run(shares, weight, bias, *states), expected, strict=True):
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_activations(name: str) -> None:
    require(TARGET)
    cell = Cell(RNN, (Activation(name, 0.3, 0.4),))
    shares, weight, state = 2 * drawn(3, 2, 16), drawn(1, 16, 16) / 4, drawn(1, 2, 16)
    expected = recurrent(shares, weight, None, state, None, cell.text, [False])
    found = compiled(cell, [False], 16)(shares, weight, None, state)
    torch.testing.assert_close(found[0], expected[0], rtol=1e-4, atol=1e-5)


def test_large_directions_run_one_after_another() -> None:
    cell, backwards, hidden = OPTIONS[-1]
    assert RecurrentLayer(cell, backwards, hidden, 16, 32).one_by_one
    assert not RecurrentLayer(cell, backwards, hidden, 16, 32, cores=8).one_by_one
    assert not RecurrentLayer(cell, backwards[:1], 2 * hidden, 16, 32).one_by_one


@pytest.mark.parametrize("hidden", [1, 3, 16, 37, 256])
@pytest.mark.parametrize("kind", [LSTM, GRU, RNN])
@pytest.mark.parametrize("registers", [16, 32])
def test_tiles_fit_into_registers_and_panels_cover_all_units(kind: str, hidden: int, registers: int) -> None:
    layer = RecurrentLayer(PLAIN_CELLS[kind], (False,), hidden, registers // 2, registers)
    vectors = layer.cell.gates * layer.vectors
    assert layer.rows == 1 or layer.rows * (vectors + 1) + 1 <= registers
    assert layer.units <= hidden <= layer.units * layer.panels
    weight: Any = np.arange(layer.cell.gates * hidden**2, dtype=np.float32)
    packed = layer.packed(weight.reshape(1, -1, hidden))
    assert packed.shape == layer.packed_shape
    assert set(packed.reshape(-1)) == set(weight)
