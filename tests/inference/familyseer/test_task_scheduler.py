"""`FamilyTaskScheduler` and `FamilyCostModel` inside stock tuning, with a runner that makes latencies up."""

from __future__ import annotations

import numpy as np
import pytest
from foretune.compiler.operators import Dense, Softmax, to_task
from foretune.compiler.tvm_compat import (
    argument_buffers,
    load_tensor_intrinsics,
    make_tune_context,
    parse_target,
)
from foretune.inference import FamilyCostModel, FamilyTaskScheduler
from foretune.inference.search.config import OneShotConfigError
from support.made_up_runs import Builder, Future
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms

TARGET = parse_target({"kind": "llvm", "num-cores": 1})
TASKS = [
    to_task(Dense(rows=8, in_features=16, out_features=32)),
    to_task(Dense(rows=8, in_features=16, out_features=64)),
    to_task(Softmax.examples()[0]),
]
LATENCIES_S = {TASKS[0].name: 2e-3, TASKS[1].name: 1e-3, TASKS[2].name: 1e-5}


@derived_object
class Runner(ms.runner.PyRunner):
    """A task is known by the shape of its last argument; None in `latencies` fails."""

    def __init__(self, latencies):
        super().__init__()
        self.latencies = latencies

    def run(self, runner_inputs):
        shapes = [tuple(int(n) for n in one.args_info[-1].shape) for one in runner_inputs]
        return [Future(self.latencies[shape]) for shape in shapes]


@derived_object
class Counting(ms.cost_model.PyCostModel):
    """Counts the programs that it is taught."""

    def __init__(self):
        super().__init__()
        self.taught = 0

    def predict(self, context, candidates):
        return np.ones(len(candidates))

    def update(self, context, candidates, results):
        self.taught += len(candidates)


def shape_of(task):
    """Shape of the last argument."""
    return tuple(argument_buffers(task.mod)[-1][0])


def tune(scheduler, folder, latencies_s, cost_model, trials=32, tasks=TASKS, together=2):
    load_tensor_intrinsics()
    contexts = [
        make_tune_context(task.mod, TARGET, seed=1, strategy="replay-trace", name=task.name) for task in tasks
    ]
    return ms.tune_tasks(
        tasks=contexts,
        task_weights=[1.0] * len(tasks),
        work_dir=str(folder),
        max_trials_global=trials,
        num_trials_per_iter=together,
        builder=Builder(),
        runner=Runner({shape_of(task): latencies_s[task.name] for task in tasks}),
        cost_model=cost_model,
        task_scheduler=scheduler,
        measure_callbacks=[ms.measure_callback.AddToDatabase(), ms.measure_callback.UpdateCostModel()],
    )


def test_the_bottleneck_goes_first_and_its_family_gets_its_share(tmp_path):
    scheduler = FamilyTaskScheduler(proportion=0.5)
    cost_model = FamilyCostModel(make=Counting)
    database = tune(scheduler, tmp_path, LATENCIES_S, cost_model)
    assert len(database) == 32
    order = list(scheduler.order)
    assert sorted(order[:3]) == [0, 1, 2]
    # Half an iteration for the family's other task after each of the bottleneck's.
    assert order[3:9] == [0, 0, 1, 0, 0, 1]
    taught = {key.family: model.taught for key, model in cost_model.models.items()}
    assert taught == {"dense": 30, "softmax": 2}


def test_the_potential_of_a_task_that_no_longer_gains_fades(tmp_path):
    scheduler = FamilyTaskScheduler(proportion=0.5, fade=0.25)
    tune(scheduler, tmp_path, LATENCIES_S, FamilyCostModel(make=Counting))
    # Latencies stay as they are, so that 2 ms fade to 0.5 and 0.125 ms. Every other turn of a bottleneck is
    # followed by one of its family: 0, 1, its family's 0, 1, 0, its family's 1, and so on below 0.01 ms.
    assert list(scheduler.order)[3:13] == [0, 1, 0, 1, 0, 1, 0, 1, 0, 2]


def test_a_task_that_fails_in_all_its_programs_waits_for_the_others(tmp_path):
    scheduler = FamilyTaskScheduler()
    tune(scheduler, tmp_path, LATENCIES_S | {TASKS[0].name: None}, FamilyCostModel(make=Counting), trials=16)
    order = list(scheduler.order)
    assert order.count(0) <= 2  # its first iteration, and at most a turn of its family
    assert order.count(1) > order.count(2) == 1


def test_stock_trees_are_fitted_by_family(tmp_path):
    pytest.importorskip("xgboost")
    cost_model = FamilyCostModel("each")
    scheduler = FamilyTaskScheduler(families="each")
    # Trees are fitted anew after each batch, by as many threads as there are cores.
    tune(scheduler, tmp_path, LATENCIES_S, cost_model, trials=80, tasks=TASKS[:2], together=16)
    assert len(cost_model.models) == 2
    scores = [model.data_size for model in cost_model.models.values()]
    assert sum(scores) == 80 and all(scores)


def test_settings_out_of_range_are_named():
    with pytest.raises(OneShotConfigError, match=r"proportion=1"):
        FamilyTaskScheduler(proportion=1.0)
    for fade in (0.0, 1.5):
        with pytest.raises(OneShotConfigError, match=rf"fade={fade}: must be over 0 and at most 1"):
            FamilyTaskScheduler(fade=fade)
    for make in (FamilyTaskScheduler, FamilyCostModel):
        with pytest.raises(OneShotConfigError, match=r"families=colour"):
            make(families="colour")
