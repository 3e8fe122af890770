"""Foretune's parts in MetaSchedule's roles, each with stock parts around it.

MetaSchedule promises its users how strategies, schedulers, cost models, callbacks, builders and databases
work together. The tests hold Foretune's parts to these promises.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
import tvm
from foretune.compiler.operators import Dense, Softmax, to_task
from foretune.compiler.tvm_compat import load_tensor_intrinsics, parse_target
from foretune.dataset.sampling.programs import EvolutionaryConfig
from foretune.inference import (
    FamilyCostModel,
    FamilyTaskScheduler,
    OneShotConfig,
    OneShotStrategy,
    PretrainedCostModel,
    prepare_builder,
)
from foretune.inference.search.config import StopConfig
from support.checkpoints import HARDWARE, random_checkpoint
from support.made_up_runs import Builder, EvenRunner, Future
from tvm import te
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms

TARGET = parse_target({"kind": "llvm", "num-cores": 1})
DENSE = to_task(Dense(rows=8, in_features=16, out_features=32))
SOFTMAX = to_task(Softmax(rows=4, columns=32))
EVERY = StopConfig(expected_improvement=0.0)


def strategy(programs=4, rounds=1):
    evolution = EvolutionaryConfig(population_size=8, generations=1)
    return OneShotStrategy(
        OneShotConfig(strategy=evolution, top_k=programs, rounds=rounds, finalists=0, stop=EVERY)
    )


def context_of(mod, search, name="task"):
    load_tensor_intrinsics()
    return ms.TuneContext(
        mod=mod, target=TARGET, space_generator="post-order-apply", search_strategy=search, task_name=name,
        rand_state=1, num_threads=1,
    ).clone()  # fmt: skip


def tune(tasks, folder, search="replay-trace", **parts):
    return ms.tune_tasks(
        tasks=[context_of(task.mod, search, task.name) for task in tasks],
        task_weights=[1.0] * len(tasks),
        work_dir=str(folder),
        **{
            "max_trials_global": 8,
            "num_trials_per_iter": 4,
            "builder": Builder(),
            "runner": EvenRunner(1e-3),
            "cost_model": "random",
            "measure_callbacks": [ms.measure_callback.AddToDatabase(), ms.measure_callback.UpdateCostModel()],
            **parts,
        },
    )


@derived_object
class FailingBuilder(ms.builder.PyBuilder):
    """Builds no program."""

    def build(self, build_inputs):
        return [ms.builder.BuilderResult(None, "made to fail") for _ in build_inputs]


@derived_object
class FailingRunner(ms.runner.PyRunner):
    """Runs no program."""

    def run(self, runner_inputs):
        return [Future(None) for _ in runner_inputs]


@derived_object
class Watching(ms.measure_callback.PyMeasureCallback):
    """Notes the task and the outcomes of each batch."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def apply(self, task_scheduler, task_id, measure_candidates, builder_results, runner_results):
        assert len(measure_candidates) == len(builder_results) == len(runner_results)
        self.seen.append((int(task_id), [result.error_msg for result in runner_results]))


# -- the search strategy


def test_a_strategy_follows_the_protocol_of_pre_tuning_to_post_tuning():
    context = context_of(DENSE.mod, strategy(programs=6, rounds=2))
    for _ in range(2):  # a strategy can be used again
        context.pre_tuning(5, 4, None, None, ms.cost_model.RandomModel())
        sizes = []
        while (programs := context.generate_measure_candidates()) is not None:
            sizes.append(len(programs))
            shapes = [tuple(int(n) for n in one.shape) for one in programs[0].args_info]
            assert shapes == [(8, 16), (16, 32), (8, 32)]
            results = [ms.runner.RunnerResult([1e-3], None) for _ in programs]
            context.notify_runner_results(programs, results)
        assert sizes == [3, 2]  # 3 of 6 programs in a round, and 5 trials
        context.post_tuning()
        assert context.generate_measure_candidates() is None


def test_a_strategy_without_a_cost_model_says_so():
    with pytest.raises(ValueError, match="OneShotStrategy searches with a cost model: give cost_model="):
        context_of(DENSE.mod, strategy()).pre_tuning(4, 4)


@pytest.mark.parametrize("failing", [{"builder": FailingBuilder()}, {"runner": FailingRunner()}])
def test_a_search_whose_programs_all_fail_ends(failing, tmp_path):
    watching = Watching()
    parts = {"measure_callbacks": [watching, ms.measure_callback.AddToDatabase()], **failing}
    tune([DENSE, SOFTMAX], tmp_path, strategy(), max_trials_global=16, **parts)
    assert sorted({task for task, _ in watching.seen}) == [0, 1]
    assert {message for _, messages in watching.seen for message in messages} == {"made to fail"}


# -- the task scheduler


@pytest.mark.parametrize("search", ["replay-trace", strategy()])
def test_a_scheduler_tunes_every_task_within_the_trials(search, tmp_path):
    database = tune([DENSE, SOFTMAX], tmp_path, search, task_scheduler=FamilyTaskScheduler())
    assert len(database) == 8
    assert all(database.has_workload(task.mod) for task in (DENSE, SOFTMAX))


def test_a_scheduler_without_tasks_has_nothing_to_choose():
    scheduler = FamilyTaskScheduler()
    scheduler.tune([], [], 8, 8, 4, Builder(), EvenRunner(1e-3), [], ms.database.MemoryDatabase(), None)
    assert scheduler.next_task_id() == -1 and list(scheduler.order) == []


@derived_object
class Silent(ms.search_strategy.PySearchStrategy):
    """Has no candidate."""

    def _initialize_with_tune_context(self, context):
        pass

    def pre_tuning(self, max_trials, num_trials_per_iter, design_spaces, database=None, cost_model=None):
        pass

    def post_tuning(self):
        pass

    def generate_measure_candidates(self):
        return None

    def notify_runner_results(self, measure_candidates, results):
        pass

    def clone(self):
        return Silent()


def test_a_scheduler_ends_tasks_without_candidates(tmp_path):
    scheduler = FamilyTaskScheduler()
    assert len(tune([DENSE, SOFTMAX], tmp_path, Silent(), task_scheduler=scheduler)) == 0
    assert sorted(scheduler.order) == [0, 1]


def test_a_run_of_no_measured_time_is_the_fastest(tmp_path):
    scheduler = FamilyTaskScheduler(proportion=0.5)
    tune([DENSE, SOFTMAX], tmp_path, task_scheduler=scheduler, runner=EvenRunner(0.0), max_trials_global=16)
    assert set(scheduler.order) == {0, 1} and len(scheduler.order) >= 4


def test_families_are_read_of_scalars_and_empty_tasks():
    def doubled(shape, name):
        a = te.placeholder(shape, name="a")
        func = te.create_prim_func([a, te.compute(shape, lambda *i: a(*i) * 2.0, name="b")])
        return tvm.IRModule({name: func.with_attr("global_symbol", name)})

    mods = [doubled((), "scalar"), doubled((0, 4), "empty"), doubled((4,), "main")]
    for families in ("operator_count", "core_operator", "operator_sequence", "loop_nest"):
        model = FamilyCostModel(families, make=ms.cost_model.RandomModel)
        for mod in mods:
            context = context_of(mod, "replay-trace")
            context.pre_tuning(2, 2, None, ms.database.MemoryDatabase(), None)
            assert model.predict(context, context.generate_measure_candidates()).shape == (2,)
        assert model.models


# -- cost model and callbacks


def test_callbacks_update_the_model_and_see_every_batch(tmp_path):
    watching, model = Watching(), FamilyCostModel(make=Taught)
    callbacks = [ms.measure_callback.AddToDatabase(), ms.measure_callback.UpdateCostModel(), watching]
    tune([DENSE, SOFTMAX], tmp_path, strategy(), cost_model=model, measure_callbacks=callbacks)
    assert sorted(watching.seen) == [(0, [None] * 4), (1, [None] * 4)]
    assert {key.family: one.taught for key, one in model.models.items()} == {"dense": 4, "softmax": 4}


@derived_object
class Taught(ms.cost_model.PyCostModel):
    """Counts what it is taught."""

    def __init__(self):
        super().__init__()
        self.taught = 0

    def predict(self, context, candidates):
        return np.ones(len(candidates))

    def update(self, context, candidates, results):
        assert all(float(result.run_secs[0]) == 1e-3 for result in results)
        self.taught += len(candidates)


def test_a_pretrained_model_serves_tasks_of_every_rank(tmp_path):
    a = te.placeholder((), name="a")
    scalar = te.create_prim_func([a, te.compute((), lambda: a() * 2.0, name="b")])
    empty = te.placeholder((0, 4), name="c")
    nothing = te.create_prim_func([empty, te.compute((0, 4), lambda i, j: empty[i, j] * 2.0, name="d")])
    mods = [DENSE.mod, tvm.IRModule({"scalar": scalar}), tvm.IRModule({"nothing": nothing})]
    runner = EvenRunner(1e-3)
    database = ms.tune_tasks(
        tasks=[context_of(mod, ms.search_strategy.EvolutionarySearch(population_size=8)) for mod in mods],
        task_weights=[1.0] * 3,
        work_dir=str(tmp_path),
        max_trials_global=12,
        num_trials_per_iter=4,
        builder=Builder(),
        runner=runner,
        cost_model=PretrainedCostModel.load(random_checkpoint(tmp_path / "random"), HARDWARE),
        measure_callbacks=[ms.measure_callback.AddToDatabase(), ms.measure_callback.UpdateCostModel()],
    )
    assert all(database.has_workload(mod) for mod in mods)


# -- the database


def assert_product(kernel):
    """Runs a kernel of DENSE and compares with NumPy's product."""
    rng = np.random.default_rng(0)
    x, w = (rng.normal(size=shape).astype("float32") for shape in ((8, 16), (16, 32)))
    out = tvm.runtime.tensor(np.zeros((8, 32), "float32"))
    kernel(tvm.runtime.tensor(x), tvm.runtime.tensor(w), out)
    np.testing.assert_allclose(out.numpy(), x @ w, rtol=1e-4, atol=1e-4)


def test_a_database_of_a_search_is_read_and_compiled_again(tmp_path):
    tune([DENSE], tmp_path, strategy(programs=3))
    again = ms.database.JSONDatabase(work_dir=str(tmp_path))
    assert len(again) == 3
    (best,) = again.get_top_k(again.commit_workload(DENSE.mod), 1)
    schedule = again.query_schedule(DENSE.mod, TARGET, "main")
    assert json.dumps(schedule.trace.as_json(), default=str) == json.dumps(best.trace.as_json(), default=str)
    x, w = (
        np.random.default_rng(n).normal(size=s).astype("float32") for n, s in ((0, (8, 16)), (1, (16, 32)))
    )
    out = tvm.runtime.tensor(np.zeros((8, 32), "float32"))
    tuned = again.query_ir_module(DENSE.mod, TARGET, "main")
    tvm.compile(tuned, target=TARGET)["main"](tvm.runtime.tensor(x), tvm.runtime.tensor(w), out)
    np.testing.assert_allclose(out.numpy(), x @ w, rtol=1e-4, atol=1e-4)
    assert again.query_ir_module(SOFTMAX.mod, TARGET, "main") is None


# -- the builder


def test_a_worker_that_prepare_builder_initialises_builds_right_programs():
    """The initializer runs here in place of a worker, which starts for some seconds."""
    prepare_builder()
    built = tvm.get_global_func("s_tir.meta_schedule.builder.default_build")(DENSE.mod, TARGET, None)
    assert_product(built["main"])
