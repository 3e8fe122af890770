"""The sub-space: values that primitives leave, primitives that a task tunes, and a tuning run in it."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from foretune.compiler.operators import Dense, to_task
from foretune.compiler.structure.read_sketch import read_sketch
from foretune.compiler.structure.sketch import INLINED
from foretune.compiler.structure.space import SketchSpace
from foretune.compiler.tvm_compat import parse_target
from foretune.dataset.features.reading import task_reading
from foretune.inference.fasor.primitives import PRIMITIVES, is_regular, narrowed, roles, settings
from foretune.inference.fasor.sub_space import BOUNDS, SHIPPED, SubSpace, WeightsError, primitive_weights, top
from foretune.inference.search.config import OneShotConfig, OneShotConfigError
from foretune.inference.spaces.chosen import chosen_space
from foretune.inference.spaces.config import SubSpaceConfig
from foretune.inference.spaces.stock import StockSpace
from hypothesis import given
from hypothesis import strategies as st
from support.checkpoints import HARDWARE, TARGET, TASK
from support.drafts import matmul, matmul_trace, with_locations
from support.searchers import network_tuner

EVEN = {bound: dict.fromkeys(PRIMITIVES, 1.0) for bound in BOUNDS}


def space_of(rows=8, columns=16, inner=32):
    trace = matmul_trace(i=[rows, 1, 1, 1], j=[columns, 1, 1, 1], k=[inner, 1])
    return SketchSpace.from_traces([trace], matmul(rows, columns, inner))


def tiles(space, number):
    return {tuple(row) for row in space.domains[number].tolist()}


# -- values


@pytest.mark.parametrize(
    ("extent", "kept"),
    [
        (16, {1, 2, 4, 8, 16}),
        (12, {1, 2, 3, 4, 6, 12}),
        (7, {1, 7}),
        (9, {1, 9}),
        (60, {1, 2, 4, 15, 30, 60}),
    ],
)
def test_factors_are_powers_of_two_with_the_odd_part_or_without(extent, kept):
    divisors = np.array([d for d in range(1, extent + 1) if extent % d == 0])
    assert set(divisors[is_regular(divisors, extent)].tolist()) == kept


@given(st.integers(1, 4000))
def test_one_and_the_whole_extent_are_always_kept(extent):
    assert is_regular(np.array([1, extent]), extent).all()


def test_the_primitive_of_each_factor():
    sketch, _ = read_sketch(matmul_trace(), matmul())
    assert [roles(sketch, decision) for decision in sketch.decisions] == [
        ("", "parallel", "split", "split"),
        ("", "parallel", "split", "vectorisation"),
        ("", "reorder"),
        ("unrolling",),
    ]


def test_settings_of_a_candidate_by_primitive():
    sketch, values = read_sketch(matmul_trace(), matmul())
    found = settings(sketch, values)
    assert found["parallel"] == (1, 2)
    assert found["split"] == (2, 2, 1)
    assert found["vectorisation"] == (8,)
    assert found["reorder"] == (4,)
    assert found["unrolling"] == (64,)
    placed, values = with_locations(1, INLINED)
    found = settings(placed, values[0])
    assert (found["compute_at"], found["compute_inline"]) == ((1, None), (False, True))


@pytest.mark.parametrize(
    ("fixed", "number", "kept"),
    [
        ("parallel", 0, lambda row: row[1] == 1),
        ("parallel", 1, lambda row: row[1] == 1),
        ("split", 0, lambda row: row[2] == row[3] == 1),
        ("split", 1, lambda row: row[2] == 1),
        ("vectorisation", 0, lambda row: True),
        ("vectorisation", 1, lambda row: row[3] == 16),
        ("reorder", 2, lambda row: row[1] == 1),
        ("unrolling", 3, lambda row: row[0] == 2),  # 64 of 0, 16, 64, 512
    ],
)
def test_a_fixed_primitive_stays_at_its_default_and_others_are_free(fixed, number, kept):
    whole = space_of()  # of powers of two, so that nothing is pruned
    (inner,) = narrowed([whole], [])
    assert [tiles(inner, i) for i in range(4)] == [tiles(whole, i) for i in range(4)]
    (inner,) = narrowed([whole], [fixed])
    assert tiles(inner, number) == {row for row in tiles(whole, number) if kept(row)}
    assert inner.size <= whole.size


def test_odd_extents_are_pruned_and_keep_a_vector():
    (inner,) = narrowed([space_of(rows=9, columns=14)], ["vectorisation"])
    assert {row[3] for row in tiles(inner, 0)} == {1, 9}
    assert {row[3] for row in tiles(inner, 1)} == {14}


def test_fixed_locations_are_at_the_root_or_inlined():
    from foretune.inference.fasor.primitives import allowed

    sketch, _ = with_locations(0)
    decision, table = sketch.decisions[-1], np.arange(-2, 3)[:, None]

    def kept(*fixed):
        return table[allowed(sketch, decision, table, fixed)][:, 0].tolist()

    assert kept() == [-2, -1, 0, 1, 2]
    assert kept("compute_inline") == [-1, 0, 1, 2]
    assert kept("compute_at") == [-2, -1]
    assert kept("compute_at", "compute_inline") == [-1]


def test_a_fixed_fusion_takes_the_sketch_without_a_cached_write():
    plain = space_of()
    cached = replace(plain, sketch=replace(plain.sketch, cached_write=True))
    (kept,) = narrowed([cached, plain], ["fuse"])
    assert kept.sketch == plain.sketch
    assert len(narrowed([cached, plain], [])) == 2
    assert len(narrowed([cached], ["fuse"])) == 1  # what is the only sketch stays


def test_narrowed_locations_survive_what_tvm_moves():
    sketch, _ = with_locations(0)
    space = SketchSpace(sketch, (*space_of().domains, np.array([[-2], [-1], [0], [1], [2]])))
    (inner,) = narrowed([space], ["compute_inline"])
    choices = inner.sample(64, np.random.default_rng(0))
    values = inner.values(inner.canonical(choices))
    assert set(values[:, -1].tolist()) <= {-1, 0, 1, 2}
    np.testing.assert_array_equal(inner.choices(values), inner.canonical(choices))


# -- which primitives


def test_the_top_primitives_by_weight():
    weights = {name: float(number) for number, name in enumerate(PRIMITIVES)}
    assert top(weights, 5) == set(PRIMITIVES[3:])
    assert top(dict.fromkeys(PRIMITIVES, 1.0), 5) == set(PRIMITIVES[:5])
    assert top(weights, 8) == set(PRIMITIVES)


def test_the_bound_of_a_task_chooses(tmp_path):
    memory = {name: float(number) for number, name in enumerate(PRIMITIVES)}
    core = {name: -weight for name, weight in memory.items()}
    file = tmp_path / "weights.json"
    file.write_text(json.dumps({"memory": memory, "core": core}))
    config = SubSpaceConfig(primitives=5, weights=str(file))
    # 100 GFLOP/s: at 20 GB/s the task's bytes take longest, at 20 TB/s its operations.
    slow, fast = (
        SubSpace.of(TASK, replace(HARDWARE, bandwidth_gbs=bandwidth), config, 6000)
        for bandwidth in (20.0, 20_000.0)
    )
    assert slow.fixed == set(PRIMITIVES[:3])
    assert fast.fixed == set(PRIMITIVES[-3:])


def test_the_shipped_weights_cover_all_primitives():
    weights = primitive_weights(SHIPPED)
    assert all(set(of) == set(PRIMITIVES) and max(of.values()) > 0 for of in weights.values())
    assert weights["memory"] != weights["core"]


@pytest.mark.parametrize("text", ["", "[]", '{"memory": {}, "core": {}}', '{"memory": {"split": "x"}}'])
def test_a_file_that_is_none_is_named(tmp_path, text):
    file = tmp_path / "weights.json"
    file.write_text(text)
    with pytest.raises(WeightsError, match=r"weights=.*weights\.json: not a JSON object of memory and core"):
        primitive_weights(str(file))
    with pytest.raises(WeightsError, match="null takes the shipped weights"):
        primitive_weights(str(tmp_path / "none.json"))


# -- settings


def test_settings_are_checked():
    with pytest.raises(OneShotConfigError, match=r"sub_space\.primitives=4: choose 5 to 8"):
        SubSpaceConfig(primitives=4)
    with pytest.raises(OneShotConfigError, match=r"search\.space=all: use one of stock, sub_space"):
        OneShotConfig(space="all")
    with pytest.raises(OneShotConfigError, match=r"search/strategy=evolutionary draws from all decisions"):
        OneShotConfig("evolutionary", space="sub_space")


def test_gpus_and_unknown_devices_have_no_sub_space():
    config = OneShotConfig(space="sub_space")
    for target, hardware in ((parse_target("nvidia/nvidia-a100"), HARDWARE), (TARGET, None)):
        with pytest.raises(OneShotConfigError, match=r"use search\.space=stock"):
            chosen_space(config, TASK, target, hardware)
    assert chosen_space(OneShotConfig(), TASK, TARGET, None) == StockSpace(6000)


def test_a_sub_space_is_checked_before_searches_start(tmp_path):
    config = OneShotConfig(space="sub_space")
    assert config.fitted(TARGET).space == "sub_space"
    with pytest.raises(OneShotConfigError, match=r"of CPUs, not of cuda; use search\.space=stock"):
        config.fitted(parse_target("nvidia/nvidia-a100"))
    weights = str(tmp_path / "none.json")
    with pytest.raises(WeightsError, match="null takes the shipped weights"):
        replace(config, sub_space=SubSpaceConfig(weights=weights)).fitted(TARGET)


# -- end to end


def test_a_task_is_tuned_within_the_sub_space(tmp_path):
    from foretune.dataset.measure import MeasureConfig, WorkerPool
    from foretune.inference.database.tuning_database import TuningDatabase
    from foretune.inference.workers.searchers import start_searchers

    task = to_task(Dense(rows=24, in_features=60, out_features=48, epilogue="bias_relu"))
    config = OneShotConfig(
        {"name": "draft", "population": 64, "generations": 2, "keep": 32},
        space="sub_space",
        sub_space=SubSpaceConfig(primitives=5),
        processes=0,
        rounds=1,
        top_k=6,
        random_share=0.5,
        finalists=0,
    )
    database = TuningDatabase(tmp_path / "database", TARGET, HARDWARE)
    searchers = start_searchers(config.fitted(TARGET), TARGET, None, HARDWARE)
    with WorkerPool(TARGET, MeasureConfig(), workers=1) as executor:
        (result,) = network_tuner(config.fitted(TARGET), executor, searchers, database).tune([task], [1.0])
    assert np.isfinite(result.latency_s)
    measured = database.latencies_s(task, 100)
    assert measured
    space = chosen_space(config, task, TARGET, HARDWARE)
    reader = task_reading(task.mod).sketches
    for trace in measured:
        sketch, values = reader.read(trace)
        found = settings(sketch, values)
        for name in space.fixed & {"parallel", "split", "reorder"}:
            assert set(found[name]) == {1}
        if "unrolling" in space.fixed:
            assert found["unrolling"] == (64,)
