"""The public API of `foretune.inference`: names, what they take, and what they refuse."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import foretune.inference
import pytest
import tvm
from foretune.compiler.operators import Dense, to_task
from foretune.compiler.tvm_compat import parse_target
from foretune.dataset.measure import MeasureOutcome
from foretune.inference import OneShotConfig, api, tune_network, tune_tasks
from foretune.models.checkpoints.checkpoint import CheckpointNotFoundError
from rich.console import Console
from support.fake_executor import FakeExecutor
from support.paths import ROOT
from tvm.s_tir import meta_schedule as ms

TARGET = parse_target({"kind": "llvm", "num-cores": 1})
TASK = to_task(Dense(rows=8, in_features=64, out_features=32, epilogue="bias_relu"))


@pytest.mark.parametrize("name", foretune.inference.__all__)
def test_every_public_name_has_a_docstring(name):
    assert getattr(foretune.inference, name).__doc__


def test_type_checkers_see_each_public_name_in_its_module():
    tree = ast.parse((ROOT / "inference" / "__init__.py").read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {
        alias.asname: f"{'.' * (node.level - 1)}{node.module}"
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == foretune.inference.MODULES


def test_no_other_name():
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        _ = foretune.inference.nothing_of_the_kind


def test_the_cost_model_alone_imports_no_hydra_and_no_plots():
    code = (
        "import sys; from foretune.inference import PretrainedCostModel; "
        "assert not {'hydra', 'matplotlib', 'sklearn.gaussian_process', 'rich.table'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


@pytest.fixture
def device(monkeypatch):
    """Measures nothing: each program is faster than the one before, an unscheduled task slow."""
    seconds = iter([1e-2, *(1e-3 / n for n in range(1, 100))])
    executor = FakeExecutor(lambda job: MeasureOutcome((next(seconds),)))
    monkeypatch.setattr(api, "make_executor", lambda *given: executor)
    return executor


def test_tasks_of_any_kind_become_a_database_for_stock_tvm(device, tmp_path):
    evolution = {"name": "evolutionary", "population_size": 6, "generations": 0}
    search = OneShotConfig(evolution, top_k=3, rounds=1, processes=0, finalists=0)
    database, (result,) = tune_tasks([TASK.mod], TARGET, tmp_path, search=search)
    assert result.operator == "dense"
    assert result.candidates_measured == 3
    assert result.tuned_latency_s == pytest.approx(1e-3 / 3)
    assert database.query_ir_module(TASK.mod, TARGET, "main") is not None
    assert device.closed
    _, (again,) = tune_tasks([TASK], TARGET, tmp_path, search=search)
    assert again.from_database


def test_tasks_are_read_from_what_stock_tvm_extracts():
    extracted = ms.ExtractedTask("fused_dense", TASK.mod, TARGET, [TASK.mod], 3)
    task = api.as_task(extracted)
    assert (task.name, task.weight, task.operator) == ("fused_dense", 3, "dense")
    assert task.workload_hash == TASK.workload_hash
    assert api.as_task(TASK) is TASK
    with pytest.raises(ValueError, match=r"tasks: str is not a task; pass a tvm\.IRModule with one PrimFunc"):
        api.as_task("conv2d")


def test_the_function_of_a_task_may_have_any_name():
    """The task is the module by which stock TVM looks a function up: `main`, with the function's symbol."""
    func = TASK.mod["main"].with_attr("global_symbol", "dense")
    task = api.as_task(tvm.IRModule({"dense": func}))
    assert (task.operator, task.mod["main"].attrs["global_symbol"]) == ("dense", "dense")
    database = ms.database.MemoryDatabase()
    database.commit_workload(task.mod)
    assert database.has_workload(tvm.get_global_func("tvm.s_tir.meta_schedule.normalize_mod")(func))
    with pytest.raises(ValueError, match="these: one, two; pass one module for each"):
        api.as_task(tvm.IRModule({"one": func, "two": func}))


def test_errors_come_before_any_work(tmp_path):
    with pytest.raises(CheckpointNotFoundError, match="nowhere"):
        tune_tasks([TASK], TARGET, tmp_path, checkpoint="nowhere")
    with pytest.raises(CheckpointNotFoundError, match="nowhere"):
        tune_network("no_such_network", checkpoint="nowhere", console=Console(quiet=True))


def test_the_report_of_a_file_is_named_after_it(monkeypatch):
    monkeypatch.setattr(api, "run", lambda config, console: config)
    assert tune_network("/models/net.onnx").folder == Path("outputs/tune/net")
    assert tune_network("/models/net.onnx", output="mine").folder == Path("mine")


def test_settings_of_a_network_are_those_of_the_command():
    with pytest.raises(ValueError, match="budget_s=0"):
        tune_network("resnet18", budget_s=0)
    with pytest.raises(TypeError, match="colour"):
        tune_network("resnet18", colour="green")
