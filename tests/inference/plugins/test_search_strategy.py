"""`OneShotStrategy` inside stock MetaSchedule, with a builder and a runner that make latencies up."""

from __future__ import annotations

import logging
import math
import re
from dataclasses import replace

import numpy as np
import pytest
import tvm
from foretune.compiler.operators import Dense, Softmax, to_task
from foretune.compiler.tvm_compat import load_tensor_intrinsics, parse_target
from foretune.dataset.sampling.programs import (
    AnnealingConfig,
    AnnealingSampler,
    EvolutionaryConfig,
    SamplerSetting,
    SamplingError,
)
from foretune.inference import OneShotConfig, OneShotStrategy, PretrainedCostModel
from foretune.inference.eto.search.config import ReuseConfig
from foretune.inference.fasor.explorer_config import ExplorationConfig
from foretune.inference.reuse.config import AutoConfig, EtoConfig
from foretune.inference.search.config import OneShotConfigError, StopConfig
from foretune.inference.spaces.config import SubSpaceConfig
from foretune.inference.starts.config import PretunedConfig
from foretune.inference.strategies.draft.config import DraftingConfig
from foretune.inference.strategies.draft.model import DraftModel
from support.drafts import CPU
from support.made_up_runs import Builder, EvenRunner, Future
from tvm import relax, te
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms
from tvm.tirx import PrimFunc

TARGET = parse_target({"kind": "llvm", "num-cores": 1})
TASK = to_task(Dense(rows=8, in_features=64, out_features=32, epilogue="bias_relu"))


@derived_object
class Runner(ms.runner.PyRunner):
    """Each program is faster than the one before; the first of each batch fails."""

    def __init__(self):
        super().__init__()
        self.batches = []

    def run(self, runner_inputs):
        self.batches.append(len(runner_inputs))
        return [Future(1e-3 / (sum(self.batches) + i) if i else None) for i in range(len(runner_inputs))]


@derived_object
class Rejecting(ms.postproc.PyPostproc):
    """Rejects every program."""

    def _initialize_with_tune_context(self, context):
        pass

    def apply(self, sch):
        return False

    def clone(self):
        return Rejecting()


SCORED: list[int] = []


@derived_object
class Constant(ms.cost_model.PyCostModel):
    """Likes every program the same, and notes in SCORED how many it is asked about."""

    def predict(self, context, candidates):
        SCORED.append(len(candidates))
        return np.ones(len(candidates))

    def update(self, context, candidates, results):
        pass

    def load(self, path):
        pass

    def save(self, path):
        pass


def tune(tasks, strategy, folder, trials=64):
    """Stock tuning as `tune_tir` and `tune_relax` call it; returns the database and the batches measured."""
    load_tensor_intrinsics()
    contexts = [
        ms.TuneContext(
            mod=task.mod,
            target=TARGET,
            space_generator="post-order-apply",
            search_strategy=strategy,
            task_name=task.name,
            rand_state=1,
            num_threads=1,
        ).clone()
        for task in tasks
    ]
    runner = Runner()
    database = ms.tune_tasks(
        tasks=contexts,
        task_weights=[1.0] * len(tasks),
        work_dir=str(folder),
        max_trials_global=trials,
        builder=Builder(),
        runner=runner,
        cost_model=Constant(),
        measure_callbacks=[ms.measure_callback.AddToDatabase(), ms.measure_callback.UpdateCostModel()],
    )
    return database, runner.batches


EVOLUTION = EvolutionaryConfig(population_size=8, generations=1)
DRAFTING = DraftingConfig(population=64, generations=1, keep=12)


def small(**changes):
    return OneShotConfig(
        **{
            "strategy": EVOLUTION,
            "top_k": 6,
            "rounds": 2,
            "finalists": 0,
            **changes,
        }
    )


@pytest.mark.parametrize(
    "strategy",
    [
        *(EVOLUTION, DRAFTING, AnnealingConfig(chains=8, steps=1), ReuseConfig(backend=EVOLUTION)),
        ExplorationConfig(candidates=16),
    ],
)
def test_a_task_gets_its_rounds_and_no_more(strategy, tmp_path):
    database, batches = tune([TASK], OneShotStrategy(small(strategy=strategy)), tmp_path)
    assert batches == [3, 3]
    assert len(database) == 6
    assert database.query_tuning_record(TASK.mod, TARGET, "main") is not None


def test_the_measurements_choose_batch_by_batch(tmp_path):
    stop = StopConfig(expected_improvement=1e-9, minimum=4, batch=2)
    _, batches = tune([TASK], OneShotStrategy(small(rounds=1, top_k=8, replay_factor=2, stop=stop)), tmp_path)
    assert batches == [4, 2, 2]


def test_what_does_not_pay_is_not_measured(tmp_path):
    stop = StopConfig(expected_improvement=0.99, minimum=4, batch=2, patience=1)
    _, batches = tune([TASK], OneShotStrategy(small(rounds=1, top_k=8, replay_factor=2, stop=stop)), tmp_path)
    assert batches == [4]


def test_trials_cap_the_validation(tmp_path):
    _, batches = tune([TASK], OneShotStrategy(small(rounds=1, top_k=64)), tmp_path, trials=4)
    assert sum(batches) == 4


def test_each_task_is_searched_once(tmp_path):
    tasks = [TASK, to_task(Softmax(rows=4, columns=32))]
    database, batches = tune(tasks, OneShotStrategy(small(rounds=1, top_k=3)), tmp_path)
    assert batches == [3, 3]
    assert all(database.has_workload(task.mod) for task in tasks)


def elementwise(shape, name="main"):
    """A module whose one function adds two arrays; MetaSchedule has no decision for it."""
    a, b = (te.placeholder(shape, name=name) for name in "ab")
    total = te.compute(shape, lambda *i: a[i] + b[i], name="total")
    func = te.create_prim_func([a, b, total]).with_attr("global_symbol", name)
    return tvm.IRModule({name: func})


def tune_mods(mods, folder, runner, space="post-order-apply", strategy=None):
    """Stock tuning of modules, as `tune_tir` calls it."""
    load_tensor_intrinsics()
    contexts = [
        ms.TuneContext(
            mod=mod, target=TARGET, space_generator=space, num_threads=1, rand_state=1, task_name=f"task {i}",
            search_strategy=strategy or OneShotStrategy(small(rounds=1, top_k=3)),
        ).clone()
        for i, mod in enumerate(mods)
    ]  # fmt: skip
    return ms.tune_tasks(
        tasks=contexts,
        task_weights=[1.0] * len(contexts),
        work_dir=str(folder),
        max_trials_global=64,
        builder=Builder(),
        runner=runner,
        cost_model=Constant(),
        measure_callbacks=[ms.measure_callback.AddToDatabase()],
    )


@pytest.mark.parametrize("shape", [(512, 512), (), (0, 4), (1,)])
def test_the_program_of_a_task_without_decisions_is_measured_once(shape, tmp_path):
    runner, mod = EvenRunner(1e-3), elementwise(shape)
    database = tune_mods([mod, TASK.mod], tmp_path, runner)
    assert sorted(runner.seen) == [1, 3]
    kinds = [one.kind.name for one in database.query_schedule(mod, TARGET, "main").trace.insts]
    assert "Parallel" in kinds or shape != (512, 512)


def test_a_fixed_schedule_of_the_user_is_measured(tmp_path):
    runner, mod = EvenRunner(1e-3), elementwise((64, 48))

    def schedule(sch):
        first, second = sch.get_loops(sch.get_sblock("total"))
        sch.reorder(second, first)

    space = ms.space_generator.ScheduleFn(schedule, sch_rules=[], postprocs=[], mutator_probs={})
    database = tune_mods([mod], tmp_path, runner, space)
    assert runner.seen == [1]
    (record,) = database.get_all_tuning_records()
    assert "Reorder" in [one.kind.name for one in record.trace.insts]


def test_a_schedule_that_does_not_apply_is_reported(tmp_path, caplog):
    runner, mod = EvenRunner(1e-3), elementwise((64, 48))
    space = ms.space_generator.ScheduleFn(
        lambda sch: None, sch_rules=[], postprocs=[Rejecting()], mutator_probs={}
    )
    assert len(tune_mods([mod], tmp_path, runner, space)) == 0
    assert runner.seen == []
    assert "task 0: no schedule of the design space is left" in caplog.text


def test_the_function_of_a_task_may_have_any_name(tmp_path):
    runner = EvenRunner(1e-3)
    dense = tvm.IRModule({"dense": TASK.mod["main"].with_attr("global_symbol", "dense")})
    database = tune_mods([elementwise((512, 512), "add"), dense], tmp_path, runner)
    assert sorted(runner.seen) == [1, 3] and len(database) == 4


@pytest.mark.parametrize("run_secs", [0.0, math.nan, -1.0, math.inf])
def test_no_time_of_a_runner_ends_the_tuning(run_secs, tmp_path):
    runner = EvenRunner(run_secs)
    stop = StopConfig(expected_improvement=1e-9, minimum=2, batch=2)
    strategy = OneShotStrategy(small(rounds=2, extra_rounds=1, top_k=8, finalists=2, stop=stop))
    tune_mods([TASK.mod], tmp_path, runner, strategy=strategy)
    assert sum(runner.seen) >= 8


def test_tune_tir_takes_it(tmp_path, monkeypatch):
    # MetaSchedule cannot name the handlers that other tests of this process have given its logger.
    monkeypatch.setattr(logging.getLogger("tvm.s_tir.meta_schedule"), "handlers", [])
    runner = Runner()
    load_tensor_intrinsics()
    database = ms.tune_tir(
        TASK.mod,
        TARGET,
        str(tmp_path),
        max_trials_global=64,
        strategy=OneShotStrategy(small()),
        builder=Builder(),
        runner=runner,
        cost_model=Constant(),
        measure_callbacks=[ms.measure_callback.AddToDatabase()],
    )
    assert runner.batches == [3, 3]
    assert database.query_tuning_record(TASK.mod, TARGET, "main") is not None


def two_layers(weights):
    """A Relax network of two dense layers with a rectifier each, in the form that stock tuning takes."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4, 32), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            y = x
            for weight in weights:
                y = builder.emit(relax.op.nn.relu(relax.op.matmul(y, relax.const(weight))))
            out = builder.emit_output(y)
        builder.emit_func_output(out)
    with TARGET:
        return relax.get_pipeline("zero")(builder.get())


@pytest.mark.parametrize("trials", [64, 4])
def test_tune_relax_takes_it_and_stock_tvm_compiles_what_it_found(trials, tmp_path, monkeypatch):
    monkeypatch.setattr(logging.getLogger("tvm.s_tir.meta_schedule"), "handlers", [])
    weights = [
        np.random.default_rng(0).normal(size=shape).astype("float32") for shape in ((32, 64), (64, 16))
    ]
    mod, runner = two_layers(weights), Runner()
    config = small(strategy=replace(DRAFTING, checkpoint="cpu-draft"), rounds=1, top_k=4)
    strategy = OneShotStrategy(config, DraftModel.load("cpu-draft", CPU))
    database = ms.relax_integration.tune_relax(
        mod,
        {},
        TARGET,
        str(tmp_path),
        max_trials_global=trials,
        strategy=strategy,
        cost_model=PretrainedCostModel.load("cpu", CPU),
        builder=Builder(),
        runner=runner,
        measure_callbacks=[ms.measure_callback.AddToDatabase()],
        seed=1,
    )
    # Two tasks of 4 candidates each, however many trials there are; or one, where there are no more trials.
    assert runner.batches == ([4, 4] if trials == 64 else [4])
    with TARGET, database:
        tuned = relax.transform.MetaScheduleApplyDatabase(enable_warning=True)(mod)
    kernels = [function for function in tuned.functions.values() if isinstance(function, PrimFunc)]
    scheduled = [kernel for kernel in kernels if kernel.attrs.get("tirx.is_scheduled")]
    assert len(scheduled) == (2 if trials == 64 else 1)
    x = np.random.default_rng(1).normal(size=(4, 32)).astype("float32")
    output = relax.VirtualMachine(tvm.compile(tuned, target=TARGET), tvm.cpu())["main"](tvm.runtime.tensor(x))
    expected = np.maximum(np.maximum(x @ weights[0], 0) @ weights[1], 0)
    np.testing.assert_allclose(output.numpy(), expected, rtol=1e-4, atol=1e-4)


def test_finalists_are_measured_again(tmp_path):
    database, batches = tune([TASK], OneShotStrategy(small(rounds=1, top_k=4, finalists=2)), tmp_path)
    assert batches == [4, 2]
    assert len(database) == 6


def test_extra_rounds_go_on_until_the_task_converges(tmp_path):
    config = small(rounds=1, top_k=2, extra_rounds=2)
    _, batches = tune([TASK], OneShotStrategy(config), tmp_path)
    assert batches == [2, 2, 2]  # each program is faster than the last


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        *[("min_latency_share", 0.1), ("processes", 2), ("overlap", "none"), ("reuse", "paper")],
        *[("planner", "foresee"), ("families", "one"), ("share_surrogate", True), ("max_code", None)],
        *[("templates", 0), ("template_margin", 0.1), ("tile_profile", False), ("starts", "pretuned")],
        *[("auto", AutoConfig(programs=1)), ("eto", EtoConfig(trials=1))],
        *[("pretuned", PretunedConfig(programs=1)), ("sub_space", SubSpaceConfig(primitives=5))],
    ],
)
def test_settings_of_networks_are_refused(setting, value):
    with pytest.raises(OneShotConfigError, match=re.escape(f"search.{setting}={value}: stock tuning")):
        OneShotStrategy(small(**{setting: value}))


def test_settings_of_programs_are_refused():
    with pytest.raises(OneShotConfigError, match=r"search\.propose=False: stock tuning"):
        OneShotStrategy(small(rounds=1, propose=False))
    with pytest.raises(OneShotConfigError, match=r"search\.space=sub_space: stock tuning"):
        OneShotStrategy(small(strategy=DRAFTING, space="sub_space"))


def test_settings_are_checked_and_kept():
    assert OneShotStrategy().config == OneShotConfig()
    strategy = OneShotStrategy(small(top_k=5))
    assert strategy._inst.clone().config == strategy.config  # what MetaSchedule gets for another task


def test_annealing_stops_early_where_nothing_gets_better():
    """All programs score the same: after two steps without a better one the walk of 50 ends."""
    SCORED.clear()
    sampler = AnnealingSampler(
        SamplerSetting(TASK, TARGET, scorer=Constant(), per_round=2, seed=0, threads=1),
        config=AnnealingConfig(chains=3, steps=50, early_stop=2),
    )
    assert len(sampler.propose()) == 2
    assert len(SCORED) == 3  # the start and two steps
    with pytest.raises(SamplingError, match="early_stop=0"):
        AnnealingConfig(early_stop=0)
