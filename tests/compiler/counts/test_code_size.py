"""Tests of code size: loops worked by hand, and TVM's own unrolling of real programs."""

from __future__ import annotations

import pytest
import tvm
import tvm_ffi
from foretune.compiler.counts.code_size import FUNCTIONS, _code, code_size
from foretune.compiler.operators import Conv2d, Dense, OperatorSettings, to_task
from foretune.compiler.tvm_compat import parse_target
from foretune.dataset.sampling.programs import (
    AnnealingConfig,
    EvolutionaryConfig,
    RandomSampler,
    SamplerSetting,
)
from foretune.inference import OneShotConfig
from foretune.inference.search.config import OneShotConfigError
from foretune.inference.search.loop import RoundBudget
from foretune.inference.search.session import SearchSession, SessionResources
from foretune.inference.spaces.stock import StockSpace
from support.lowering import unrolled
from tvm.script import ir as I
from tvm.script import tirx as T
from tvm.tirx import BufferStore

TARGET = parse_target({"kind": "llvm", "num-cores": 2})
CONV = Conv2d(batch=1, height=28, width=28, in_channels=64, out_channels=64, kernel=3, padding=1)
DENSE = Dense(rows=64, in_features=256, out_features=256, epilogue="bias")


def scaled(step: int) -> tvm.IRModule:
    """Doubling of 4 x 6 x 20 numbers; the innermost loop is vectorised."""

    @I.ir_module
    class Module:
        @T.prim_func(s_tir=True)
        def main(a: T.Buffer((480,), "float32"), b: T.Buffer((480,), "float32")):
            for i in T.parallel(
                4, annotations={"pragma_auto_unroll_max_step": step, "pragma_unroll_explicit": 1}
            ):
                for j in range(6):
                    for k in T.vectorized(20):
                        with T.sblock("b"):
                            v = T.axis.spatial(480, i * 120 + j * 20 + k)
                            b[v] = a[v] * T.float32(2)

    return Module


def two_parts(step: int) -> tvm.IRModule:
    """Three iterations that double 5 numbers and then 40 x 2 numbers one by one."""

    @I.ir_module
    class Module:
        @T.prim_func(s_tir=True)
        def main(
            a: T.Buffer((15,), "float32"), b: T.Buffer((15,), "float32"), c: T.Buffer((240,), "float32")
        ):
            for i in T.serial(
                3, annotations={"pragma_auto_unroll_max_step": step, "pragma_unroll_explicit": 1}
            ):
                for j in range(5):
                    with T.sblock("b"):
                        v = T.axis.spatial(15, i * 5 + j)
                        b[v] = a[v] * T.float32(2)
                for j, k in T.grid(40, 2):
                    with T.sblock("c"):
                        v = T.axis.spatial(240, i * 80 + j * 2 + k)
                        c[v] = T.float32(2)

    return Module


def test_a_vectorised_store_is_as_many_instructions_as_it_is_wide():
    # 20 numbers are 3 vectors of 8, each with a load and a store; without a pragma nothing is unrolled.
    assert code_size(scaled(0)) == 3 * 2


def test_a_function_is_the_instructions_of_its_polynomial():
    @I.ir_module
    class Module:
        @T.prim_func(s_tir=True)
        def main(a: T.Buffer((480,), "float32"), b: T.Buffer((480,), "float32")):
            for i in range(24):
                for k in T.vectorized(20):
                    with T.sblock("b"):
                        v = T.axis.spatial(480, i * 20 + k)
                        b[v] = T.exp(T.tanh(a[v])) * T.sqrt(a[v])

    assert code_size(Module) == 3 * (2 + FUNCTIONS["tirx.exp"] + FUNCTIONS["tirx.tanh"])


def test_the_pragma_unrolls_what_has_no_more_stores_than_its_step():
    assert code_size(scaled(5)) == 3 * 2
    assert code_size(scaled(6)) == 6 * 3 * 2  # the parallel loop is not unrolled
    assert code_size(scaled(512)) == 6 * 3 * 2


def test_a_loop_that_stays_one_keeps_those_around_it():
    assert code_size(two_parts(0)) == 2 + 1
    assert code_size(two_parts(5)) == 5 * 2 + 2 * 1
    assert code_size(two_parts(80)) == 5 * 2 + 80 * 1
    # Everything is unrolled: 3 times 5 + 80 stores.
    assert code_size(two_parts(254)) == 5 * 2 + 80 * 1
    assert code_size(two_parts(255)) == 3 * (5 * 2 + 80 * 1)


def stores_left_by_tvm(mod: tvm.IRModule) -> int:
    """Number of stores of a scheduled program after lowering, vectorising and unrolling by TVM."""
    lowered = unrolled(mod)
    found = []

    def count(store: BufferStore) -> tvm_ffi.WalkResult:
        found.append(store)
        return tvm_ffi.WalkResult.ADVANCE

    tvm_ffi.structural_walk(lowered["main"].body, [(BufferStore, count)], order="pre")
    return len(found)


@pytest.mark.parametrize(("operator", "equal"), [(CONV, 0.5), (DENSE, 1.0)], ids=["conv2d", "dense"])
def test_tvm_unrolls_programs_to_as_many_stores(operator: OperatorSettings, equal: float):
    task = to_task(operator)
    sampler = RandomSampler(SamplerSetting(task, TARGET, per_round=24, seed=3, threads=1))
    counts = [
        (_code(candidate.sch.mod["main"].body, 1, 0).stores, stores_left_by_tvm(candidate.sch.mod))
        for _, candidate in sampler.propose()
    ]
    assert max(theirs for _, theirs in counts) > 100  # some programs are unrolled
    # TVM shrinks the padded input to the part that a tile needs, which changes the loops that fill it.
    assert sum(ours == theirs for ours, theirs in counts) >= equal * len(counts), counts
    assert all(max(pair) <= 1.5 * min(pair) for pair in counts), counts


def test_a_limited_space_has_no_longer_programs():
    task = to_task(CONV)
    space = StockSpace(300).generator(TARGET)
    free, limited = (
        RandomSampler(SamplerSetting(task, TARGET, per_round=40, seed=0, threads=1, **given)).propose()
        for given in ({}, {"space": space})
    )
    assert max(code_size(candidate.sch.mod) for _, candidate in free) > 300
    assert max(code_size(candidate.sch.mod) for _, candidate in limited) <= 300


@pytest.mark.parametrize(
    "strategy", [EvolutionaryConfig(population_size=12), AnnealingConfig(chains=12)], ids=lambda s: s.name
)
def test_every_search_keeps_the_limit(strategy):
    task = to_task(CONV)
    config = OneShotConfig(strategy, top_k=12, rounds=1, max_code=300)
    scorer = tvm.s_tir.meta_schedule.cost_model.RandomModel()
    session = SearchSession(task, TARGET, SessionResources(scorer, config, None, threads=1))
    found = session.propose(RoundBudget(12))
    assert found
    assert max(code_size(session.known.program(candidate.trace).sch.mod) for candidate in found) <= 300


def test_a_limit_below_one_is_refused():
    with pytest.raises(OneShotConfigError, match=r"search\.max_code=0: must be at least 1"):
        OneShotConfig(max_code=0)
    assert OneShotConfig(max_code=None).max_code is None
