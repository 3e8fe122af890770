"""Winograd's algorithm in addition to the direct kernels of a convolution, and the sizes at which it runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import tvm
from foretune.compiler.operators.convolutions.winograd import F2, F4
from foretune.compiler.operators.convolutions.winograd_rounding import LARGEST_ROUNDING
from foretune.compiler.templates.cpu.dynamic.kernel_parameters import KernelParameters
from foretune.compiler.templates.cpu.dynamic.nodes import fixed, with_values
from foretune.compiler.templates.cpu.dynamic.prediction import Machine
from foretune.compiler.templates.cpu.dynamic.winograd.convolution import SymbolicConvolution
from foretune.compiler.templates.cpu.dynamic.winograd.winograd_choice import (
    WinogradCycles,
    WinogradUse,
    predicted,
    use_of,
)
from foretune.compiler.templates.cpu.dynamic.winograd.winograd_kernel import WinogradParameters
from foretune.compiler.templates.cpu.template import COLUMNS_FIRST
from foretune.compiler.types import WIDE

from tests.compiler.templates.cpu.dynamic.kernels import Network, random
from tests.compiler.templates.cpu.dynamic.winograd.test_winograd_kernel import convolution, read, wanted

RANGES = {"batch": (1, 5), "rows": (1, 40), "columns": (1, 48)}

KERNEL = WinogradParameters(4, KernelParameters(16, 6, 1, COLUMNS_FIRST, 2), tiles=24, parts=1)


def network(
    winograd: Sequence[int] = (2, 4),
    measure: Callable[[Sequence[tvm.IRModule]], Sequence[float | None]] | None = None,
) -> Network:
    """A convolution of 64 channels with bias and ReLU."""
    tensors = convolution(64, 64, 1)
    return Network(tensors, RANGES, {1: random(3, 3, 64, 64)}, measure=measure, winograd=winograd)


def use(network: Network) -> WinogradUse | None:
    (task,) = network.made.tasks
    return task.winograd


def conv() -> SymbolicConvolution:
    found = read(convolution(64, 64, 1))
    assert found is not None
    return found


def at(conv: SymbolicConvolution, batch: int, rows: int, columns: int) -> dict[tvm.tirx.Var, int]:
    sizes = {"batch": batch, "rows": rows, "columns": columns}
    return {var: sizes[var.name] for var in conv.product.symbols}


def runs(use: WinogradUse, conv: SymbolicConvolution, *sizes: int) -> bool:
    return bool(fixed(with_values(use.condition(conv), at(conv, *sizes))))


def test_the_sizes_by_hand() -> None:
    """8.8 rows of taps pay for a tile and 22 for the weight: one 4x4 image has 4 * 10, and one tile."""
    task, found = conv(), WinogradCycles(KERNEL, tile=400.0, weight=1000.0)
    assert found.at(task, at(task, 2, 5, 8)) == 2 * 2 * 2 * 400
    assert found.at(task, at(task, 1, 4, 4)) == 1000
    chosen = use_of(task, found, 50.0, at(task, 5, 40, 48))
    assert chosen == WinogradUse(KERNEL, per_tile=8.8, at_least=22.0)
    assert runs(chosen, task, 1, 4, 4)  # 40 >= 22
    assert not runs(chosen, task, 1, 2, 4)  # 16 < 22
    assert not runs(chosen, task, 5, 1, 48)  # tiles of four rows cover one: 240 < 60 * 8.8


def test_a_small_gain_at_the_largest_sizes_is_not_worth_the_memory() -> None:
    task = conv()
    largest = at(task, 1, 4, 4)  # 40 rows of taps and one tile
    assert use_of(task, WinogradCycles(KERNEL, 100.0, 0.0), 3.01, largest) is not None
    assert use_of(task, WinogradCycles(KERNEL, 100.0, 0.0), 2.99, largest) is None


def test_large_tiles_for_large_images_and_small_ones_for_two_rows() -> None:
    task, machine = conv(), Machine(lanes=8, registers=16, cores=2)
    assert predicted(task, [F2, F4], [at(task, 1, 40, 40)], 500.0, machine).kernel.tile == 4
    assert predicted(task, [F2, F4], [at(task, 1, 2, 40)], 500.0, machine).kernel.tile == 2


def test_threads_share_panels_and_parts_evenly() -> None:
    """Two panels of 32 channels in four parts give each of eight cores one."""
    task, machine = conv(), Machine(lanes=16, registers=32, cores=8)
    found = predicted(task, [F4], [at(task, 5, 40, 48)], 500.0, machine).kernel
    panels = -(-64 // found.member.width)
    assert panels * found.parts % 8 == 0
    assert found.tiles >= found.member.rows
    assert 4 * found.elements * found.tiles * found.member.width <= machine.cache_bytes


def test_each_size_runs_one_of_both(runs_here: None) -> None:
    made = network()
    chosen, task = use(made), conv()
    assert chosen is not None
    run, weight, bias = made.compiled(), random(3, 3, 64, 64), random(64)
    found = set()
    for sizes in ((1, 1, 1), (1, 1, 48), (5, 1, 47), (1, 4, 5), (2, 13, 11), (3, 40, 29), (5, 39, 48)):
        found.add(runs(chosen, task, *sizes))
        data = random(*sizes, 64)
        sums = wanted(data, weight, bias, 1)
        difference = np.abs(run(data, bias) - np.maximum(sums, 0)).max()
        assert difference <= LARGEST_ROUNDING[WIDE] * np.abs(sums).max()
    assert found == {False, True}


def test_settings_and_accuracy_rule_it_out(monkeypatch: pytest.MonkeyPatch) -> None:
    assert use(network(())) is None
    monkeypatch.setitem(LARGEST_ROUNDING, WIDE, 6e-7)
    chosen = use(network())
    assert chosen is not None and chosen.kernel.tile == 2
    monkeypatch.setitem(LARGEST_ROUNDING, WIDE, 0.0)
    assert use(network()) is None


def test_a_measured_kernel_corrects_the_sizes() -> None:
    """Times of the direct kernels come first; Winograd's are 10 times as long, then a tenth."""

    def measuring(own: float) -> Callable[[Sequence[tvm.IRModule]], list[float | None]]:
        seconds = iter((1.0, own))
        return lambda modules: [next(seconds)] * len(modules)

    assert use(network(measure=measuring(10.0))) is None
    faster, expected = use(network(measure=measuring(0.1))), use(network())
    assert faster is not None and expected is not None
    assert faster.per_tile < expected.per_tile and faster.kernel == expected.kernel


def test_a_kernel_that_was_not_measured_keeps_its_prediction() -> None:
    assert use(network(measure=lambda modules: [None] * len(modules))) == use(network())
