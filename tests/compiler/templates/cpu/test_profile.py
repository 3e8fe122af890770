"""Light profiler: sample programs, costs of register tiles, predictions, and the file that keeps them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import tvm
from foretune.compiler.instruction_sets import INSTRUCTION, INSTRUCTIONS
from foretune.compiler.targets import target_instructions
from foretune.compiler.templates.cpu.choice import ranked
from foretune.compiler.templates.cpu.contraction import read_contraction
from foretune.compiler.templates.cpu.prediction import collision_factor, predicted_s
from foretune.compiler.templates.cpu.profile.sample_kernels import RegisterTile, sample_module, sample_tiles
from foretune.compiler.templates.cpu.profile.tile_profile import TileCost, TileProfile, profile_path
from foretune.compiler.templates.cpu.programs import template_traces
from foretune.compiler.templates.cpu.template import COLUMNS_FIRST, ROWS_FIRST, Template
from foretune.compiler.tvm_compat import parse_target
from foretune.compiler.types import numpy_type
from foretune.dataset.hardware import Hardware
from foretune.dataset.hardware.target_hardware import target_hardware
from foretune.dataset.measure import WorkerPool
from foretune.dataset.measure.worker import light_profiler as profiler_module
from foretune.dataset.measure.worker.light_profiler import LightProfiler
from foretune.dataset.measure.worker.process import WorkerProcess, WorkerSpec, WorkerStartError
from tvm.target import Target

from tests.support.contractions import Product
from tests.support.cpus import require

pytestmark = pytest.mark.cpu

FMA = INSTRUCTION["avx2_fma"]
TARGET = Target({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2})
HARDWARE = Hardware("cpu", "cpu", 2, 3.0, 256, 48 << 10, 2 << 20, 8 << 20, 100.0, 20.0)


def profile_of(cost: TileCost, instruction=FMA) -> TileProfile:
    """The same cost for all register tiles."""
    return TileProfile({tile.name: cost for tile in sample_tiles(instruction)})


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("instruction", INSTRUCTIONS, ids=lambda instruction: instruction.name)
def test_tens_of_samples_fit_the_registers(instruction) -> None:
    tiles = sample_tiles(instruction)
    assert 10 <= len(tiles) <= 30
    assert len({tile.name for tile in tiles}) == len(tiles)
    for tile in tiles:
        sums = tile.row_tiles * tile.vectors if instruction.tiles else tile.rows * tile.vectors
        operands = tile.row_tiles + tile.vectors if instruction.tiles else tile.vectors + 1
        assert sums + operands <= instruction.registers


@pytest.mark.parametrize("instruction", INSTRUCTIONS, ids=lambda instruction: instruction.name)
def test_samples_compute_their_products(instruction) -> None:
    """Each call multiplies rows of threes and columns of twos over five steps.

    Samples of signed data leave out the correction of vpdpbusd, which positive data does not need.
    """
    base = "x86-64-v4" if instruction.lanes >= 16 else "x86-64-v3"
    target = Target({"kind": "llvm", "mcpu": base, "mattr": [f"+{f}" for f in instruction.features]})
    require(target)
    tile = RegisterTile(instruction, 4, 2)
    library = tvm.compile(sample_module([tile]), target=target).jit()
    operands = [np.full(16384, value, np.float32) for value in (3, 2)]
    data, weights = (
        tvm.runtime.tensor(values.astype(numpy_type(dtype)).view(np.uint8))
        for values, dtype in zip(operands, (instruction.data, instruction.weight), strict=True)
    )
    sums = tvm.runtime.tensor(np.zeros(8192, np.uint8))
    steps, pitch = 5, 5 * (64 if instruction.tiles else instruction.word_bytes)
    library[tile.name](data, weights, sums, pitch, steps, 2)
    found = sums.numpy().view(numpy_type(instruction.accumulator))
    each_step = 16 * instruction.step if instruction.tiles else instruction.step
    assert (found[: 4 * instruction.lanes] == 3 * 2 * each_step * steps).all()


def test_rows_between_two_samples_are_interpolated() -> None:
    costs = profile_of(TileCost(1.0, 1.0, 2.0, 3.0)).costs
    costs[RegisterTile(FMA, 2, 1).name] = TileCost(1.0, 1.0, 2.0, 3.0)
    costs[RegisterTile(FMA, 4, 1).name] = TileCost(2.0, 3.0, 4.0, 7.0)
    found = TileProfile(costs).cost(RegisterTile(FMA, 3, 1))
    assert found == TileCost(1.5, 2.0, 3.0, 5.0)
    with pytest.raises(KeyError):
        TileProfile(costs).cost(RegisterTile(FMA, 3, 9))


def test_a_prediction_by_hand() -> None:
    """32 x 64 x 100 in tiles of 4 rows and 16 columns: 8 x 4 tiles.

    A tile reads 4 * 4 * 100 = 1,600 bytes of data and 2 * 32 * 100 = 6,400 of weights. Columns first streams
    all data, 12,800 bytes, past each panel of weights: of a tile's bytes 1,600 / 8,000 = 0.2 are streamed.
    """
    task = read_contraction(Product(32, 64, 100).module())
    assert task is not None
    profile = profile_of(TileCost(10e-9, 1e-9, 3e-9, 20e-9))
    template = Template(FMA, (4,), 2, 1, COLUMNS_FIRST)
    # Both within the first cache, 1 ns a step.
    assert predicted_s(task, template, profile, (20_000, 1 << 20), 1) == pytest.approx(32 * 110e-9)
    # The panel in the first cache, the data in the second: 0.8 * 1 + 0.2 * 3 = 1.4 ns.
    assert predicted_s(task, template, profile, (10_000, 1 << 20), 1) == pytest.approx(32 * 150e-9)
    # The panel in the second, the data beyond: 0.8 * 3 + 0.2 * 20 = 6.4 ns.
    assert predicted_s(task, template, profile, (7_000, 15_000), 1) == pytest.approx(32 * 650e-9)
    # Rows first keeps the rows and streams the weights, 25,600 bytes: 0.2 * 1 + 0.8 * 3 = 2.6 ns.
    by_rows = Template(FMA, (4,), 2, 1, ROWS_FIRST)
    assert predicted_s(task, by_rows, profile, (10_000, 1 << 20), 1) == pytest.approx(32 * 270e-9)
    # Four panels on two cores, and on three, one of which has two.
    assert predicted_s(task, template, profile, (20_000, 1 << 20), 2) == pytest.approx(16 * 110e-9)
    assert predicted_s(task, template, profile, (20_000, 1 << 20), 3) == pytest.approx(16 * 110e-9)


@pytest.mark.parametrize(
    ("depth", "rows", "vectors", "first_bytes", "factor"),
    [
        (1024, 16, 1, 32 << 10, 1 + 5 * 0.25),  # 4096 bytes from row to row: one place, of eight ways
        (1024, 16, 1, 48 << 10, 1 + 5 / 16),  # twelve ways
        (1024, 14, 2, 32 << 10, 1 + 2.5 * (6 / 14) ** 2),
        (512, 16, 1, 32 << 10, 1.0),  # two places for eight rows each
        (1024, 8, 1, 32 << 10, 1.0),
        (1040, 16, 1, 32 << 10, 1.0),  # 65 lines: a place for each row
        (1030, 16, 1, 32 << 10, 1.0),
    ],
)
def test_rows_that_push_each_other_out_of_the_cache(
    depth: int, rows: int, vectors: int, first_bytes: int, factor: float
) -> None:
    task = read_contraction(Product(112, 64, depth).module())
    assert task is not None
    template = Template(FMA, (rows,), vectors)
    assert collision_factor(task, template, first_bytes) == pytest.approx(factor)


def test_templates_of_a_slow_register_tile_are_left_out(own_cache: Path) -> None:
    task = Product(32, 64, 64)
    contraction = read_contraction(task.module())
    assert contraction is not None
    costs = profile_of(TileCost(0.0, 1e-6, 1e-6, 1e-6)).costs
    fast = RegisterTile(FMA, 4, 2)
    costs[fast.name] = TileCost(0.0, 1e-9, 1e-9, 1e-9)
    light = LightProfiler(TARGET, HARDWARE)
    light._profile = TileProfile(costs)
    (best, _), *_ = ranked(contraction, [FMA], HARDWARE, 2, TileProfile(costs))
    assert (best.rows, best.vectors) == (4, 2)
    two_orders = template_traces(task.module(), TARGET, HARDWARE, 4, light, 0.1)
    assert len(two_orders) <= 2
    assert len(template_traces(task.module(), TARGET, HARDWARE, 4, light)) == 4
    assert len(template_traces(task.module(), TARGET, HARDWARE, 4, margin=0.1)) == 4  # nothing is measured


def test_register_tiles_are_measured_alone(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = []

    @contextmanager
    def alone() -> Iterator[None]:
        steps.append("alone")
        yield
        steps.append("not alone")

    monkeypatch.setattr(LightProfiler, "_measured", lambda *_: steps.append("measured") or {})
    LightProfiler(TARGET, HARDWARE, alone=alone).profile([FMA])
    assert steps == ["alone", "measured", "not alone"]


def test_the_timer_shares_the_imports_of_measuring_processes(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    specs = []

    def started(spec: WorkerSpec) -> WorkerProcess:
        specs.append(spec)
        raise WorkerStartError("enough")

    monkeypatch.setattr(profiler_module, "WorkerProcess", started)
    assert LightProfiler(TARGET, HARDWARE).profile([FMA]) is None
    monkeypatch.setattr(WorkerPool, "_start", lambda pool: specs.append(pool._spec))
    WorkerPool(TARGET, workers=1)
    timer, host = specs
    assert (timer.module, timer.environment, timer.torch) == (host.module, host.environment, host.torch)


def test_a_profile_is_kept_for_later_runs(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def measured(self: LightProfiler, instructions) -> dict[str, TileCost]:
        calls.append([instruction.name for instruction in instructions])
        return {t.name: TileCost(0.5, 1.0, 1.5, 2.5) for i in instructions for t in sample_tiles(i)}

    monkeypatch.setattr(LightProfiler, "_measured", measured)
    first = LightProfiler(TARGET, HARDWARE).profile([FMA])
    again = LightProfiler(TARGET, HARDWARE).profile([FMA])
    assert first is not None and again is not None
    assert first.costs == again.costs
    assert calls == [[FMA.name]]
    assert profile_path(TARGET, HARDWARE).is_relative_to(own_cache)
    other = INSTRUCTION["avx512_fma"]
    LightProfiler(TARGET, HARDWARE).profile([FMA, other])  # another data type is added
    LightProfiler(TARGET, HARDWARE, anew=True).profile([FMA])  # as retune asks for
    assert calls == [[FMA.name], [other.name], [FMA.name]]
    elsewhere = Target({"kind": "llvm", "mcpu": "x86-64-v4", "num-cores": 2})
    assert profile_path(elsewhere, HARDWARE) != profile_path(TARGET, HARDWARE)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"version": 0, "costs": {}}',
        '{"version": 1, "costs": 3}',
        '{"version": 1, "costs": {"avx2_fma_1x1x1": [0.0, 1.0, 1.0]}}',
        '{"version": 1, "costs": {"avx2_fma_1x1x1": [0.0, -1.0, 1.0, 1.0]}}',
        '{"version": 1, "costs": {"avx2_fma_1x1x1": [0.0, NaN, 1.0, 1.0]}}',
    ],
)
def test_a_damaged_or_old_profile_is_measured_anew(
    own_cache: Path, text: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = profile_path(TARGET, HARDWARE)
    path.parent.mkdir(parents=True)
    path.write_text(text)
    cost = TileCost(0.0, 1.0, 1.0, 1.0)
    monkeypatch.setattr(LightProfiler, "_measured", lambda *_: profile_of(cost).costs)
    with caplog.at_level(logging.WARNING):
        found = LightProfiler(TARGET, HARDWARE).profile([FMA])
    assert found is not None and found.has(FMA)
    assert [path.name in message and "measured anew" in message for message in caplog.messages] == [True]
    assert TileProfile.from_json(path.read_text()).costs == found.costs


def test_a_measurement_that_fails_leaves_the_estimates(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(profiler_module, "TIMEOUT_S", 0.0)
    light = LightProfiler(parse_target("llvm"), HARDWARE)
    with caplog.at_level(logging.WARNING):
        assert light.profile([FMA]) is None
        assert light.profile([FMA]) is None
    assert len(caplog.messages) == 1 and "no answer within 0 s" in caplog.messages[0]
    assert not profile_path(parse_target("llvm"), HARDWARE).exists()


def test_register_tiles_of_this_machine(own_cache: Path) -> None:
    target = parse_target("llvm")
    instructions = target_instructions(target, "float32", "float32", "float32")
    if not instructions:
        pytest.skip("this CPU has no fused multiply-add")
    hardware = target_hardware(target, measured=False)
    profile = LightProfiler(target, hardware).profile(instructions[:1])
    assert profile is not None and profile.has(instructions[0])
    for cost in profile.costs.values():
        assert 0 < cost.near_s <= min(cost.second_s, cost.far_s) < 1e-3
    small, large = (profile.cost(RegisterTile(instructions[0], rows, 1)) for rows in (1, 30))
    assert small.near_s < large.near_s
