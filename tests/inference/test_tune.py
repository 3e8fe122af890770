"""The command `foretune tune` on small networks, with a small random checkpoint."""

import os
import re
import signal
import sys
from contextlib import suppress

import numpy as np
import psutil
import pytest
import tvm
from foretune.compiler.networks import load_network
from foretune.compiler.networks.inputs import BadInputShapeError
from foretune.configuration import from_hydra
from foretune.inference.database.turns import TURN_FILE
from foretune.inference.deploy.fresh_process import CALLS
from foretune.inference.deploy.load import load
from foretune.inference.run.config import TuneConfig
from foretune.inference.run.conversion import original_of
from foretune.inference.run.network_run import _as_built
from foretune.inference.run.profiling import StageClock
from foretune.inference.run.result import BY_LOAD, BY_STOCK, NOT_BUILT
from foretune.inference.run.result_file import load_result
from foretune.inference.tune import run
from hydra import compose, initialize_config_module
from rich.console import Console
from support.checkpoints import random_checkpoint
from support.commands import forked_commands, status_of
from support.locks import held_by_another_process
from support.results import make_task

NETWORK = "tiny_network:Tiny"
TINY = """
from torch import nn

class Tiny(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(64, 64, 3, padding=1)
        self.norm = nn.BatchNorm2d(64)
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        return self.head(self.norm(self.conv(x)).relu().mean((2, 3)))

class Branches(nn.Module):
    def forward(self, x):
        return x + 1 if x.sum() > 0 else x - 1
"""

SHORT = (
    *("search.top_k=3", "search.rounds=1", "search.strategy.population=64", "search.strategy.generations=1"),
    *("search.strategy.keep=8", "timing_repeats=3", "measure.repeats=2", "measure.groups=1"),
)
GPU = (
    *("network=support.networks:Dense", "inputs=[[8,256]]", "executor=dry_run", "target=nvidia/nvidia-a100"),
    *("checkpoint=auto", "search.processes=0", *SHORT),
)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return random_checkpoint(tmp_path_factory.mktemp("checkpoint") / "random")


@pytest.fixture(scope="module")
def commands():
    with forked_commands("foretune.inference.tune") as commands:
        yield commands


def recorded(folder):
    """Number of measured programs in the tuning database of a run in `folder`."""
    paths = (folder / "outputs" / "tuning-database").glob("*/database_tuning_record.json")
    return sum(path.read_text().count("\n") for path in paths)


def wait_for_records(command, folder, more_than=0):
    """Waits until the database has more programs than so many."""
    for _ in range(6000):
        if recorded(folder) > more_than:
            return
        assert command.wait(0.05) is None, command.output + command.errors
    raise AssertionError(f"no record within 300 s: {command.output}")


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_a_network_is_tuned_through_an_interrupt_and_a_kill(commands, checkpoint, tmp_path):
    (tmp_path / "tiny_network.py").write_text(TINY)
    words = ("tune", f"network={NETWORK}", "inputs=[[1,64,28,28]]", f"checkpoint={checkpoint}", *SHORT)
    words = (*words, "search.processes=1", "workers=1")
    # Rounds that they will not come to keep these runs from being done before they are stopped.
    process = commands.start(tmp_path, *words, "rivals=[]", "search.extra_rounds=1000")
    wait_for_records(process, tmp_path)
    os.kill(process.pid, signal.SIGTERM)
    assert process.wait(120) == 143, process.output + process.errors
    told = " ".join(process.output.split())  # wherever a narrow console breaks it
    assert "what was measured is kept" in told
    assert "the same command continues" in process.errors
    assert "Traceback" not in process.errors

    process = commands.start(tmp_path, *words, "rivals=[eager]", "search.extra_rounds=1000")
    wait_for_records(process, tmp_path, more_than=recorded(tmp_path))
    children = psutil.Process(process.pid).children(recursive=True)
    assert children  # processes that search and that measure
    for child in children:
        with suppress(psutil.NoSuchProcess):  # it has ended meanwhile
            child.suspend()  # as a search while a program is timed
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait(30) == -signal.SIGKILL
    _, alive = psutil.wait_procs(children, timeout=30)
    assert not alive

    (database,) = (tmp_path / "outputs" / "tuning-database").iterdir()
    with held_by_another_process(database / TURN_FILE) as holder:
        process = commands.start(tmp_path, *words, "rivals=[eager]", "export=tiny.so")
        while f"another run (process {holder.pid}" not in " ".join(process.output.split()):
            assert process.wait(0.1) is None, process.output + process.errors
    assert process.wait(900) == 0, process.output + process.errors
    assert "wrote tiny.so: foretune.load('tiny.so')(*inputs)" in process.output
    assert "Scope Saving" not in process.errors
    (report,) = (tmp_path / "outputs" / "tune").rglob("report.json")
    assert report.parent == tmp_path / "outputs" / "tune" / "Tiny"
    assert report.with_suffix(".html").exists()
    check_result(load_result(report))
    network = load(tmp_path / "tiny.so")
    assert network(np.zeros((1, 64, 28, 28), np.float32)).shape == (1, 10)


def check_result(result):
    """The last of several runs has used what those before it measured, and has timed the network."""
    assert any(task.from_database for task in result.tasks)
    assert result.outputs_match and result.max_abs_difference <= result.tolerance
    contestants = {one.name: one for one in result.contestants}
    assert set(contestants) == {"tuned TVM", "untuned TVM", "PyTorch eager"}
    assert all(one.own_process and not one.error for one in contestants.values())
    assert {stats.name for stats in result.exported} == {BY_LOAD, BY_STOCK}
    assert all(len(stats.samples_s) == CALLS for stats in result.exported)
    profiled = {call.task for call in result.network_profile.calls} - {""}
    assert profiled == {task.name for task in result.tasks if task.weight}
    assert result.peak_gflops > 1
    assert {"building", "timing"} <= set(result.profile_s)


@pytest.mark.slow
def test_a_dry_run_searches_and_builds_for_a_gpu_that_is_not_there(tmp_path):
    with initialize_config_module("foretune.conf", version_base="1.3"):
        composed = compose("tune", [*GPU, "profile=true", "output=report", "database=database"])
    console = Console(record=True, width=200)
    run(from_hydra(composed, TuneConfig), console)
    told = console.export_text()
    assert "replay and postprocessing" in told
    assert "made up" in told and "the network is not timed" in told
    assert "no checkpoint" not in told and "no draft checkpoint" not in told
    result = load_result(tmp_path / "report" / "report.json")
    assert result.simulated
    assert {"features", "prediction", "building"} <= set(result.profile_s)
    assert result.contestants == []
    assert result.outputs_match is None
    assert sum(task.candidates_measured for task in result.tasks) > 0
    assert "dry run" in result.hardware


REFUSED = [
    ((), "resnet81", "did you mean resnet18"),
    ((), "tiny_network:Branches", "does not export|torch.export failed"),
    (("target=bogus",), NETWORK, "target='bogus'"),
    pytest.param(
        *(("target=nvidia/nvidia-a100", "checkpoint=null"), NETWORK, "no CUDA device here"),
        marks=pytest.mark.skipif(tvm.cuda().exist, reason="there is a CUDA device here"),
    ),
    (("executor=dry_run", "executor.kind=quantum"), NETWORK, "executor=quantum"),
    (("search=fastest",), NETWORK, "search=fastest"),
    (("budget_s=-1",), NETWORK, "budget_s=-1"),
    (("rivals=[egaer]",), NETWORK, "rivals=egaer: unknown; did you mean eager"),
    (("search.stop.minimum=0",), NETWORK, r"search\.stop\.minimum=0"),
    (("report.power_w=-5",), NETWORK, r"report\.power_w=-5"),
    (("report.beside=nowhere.json",), NETWORK, "nowhere.json"),
    (("search.top_k=0",), NETWORK, "search.top_k=0"),
    (("serch.top_k=1",), NETWORK, "serch"),
    (("checkpoint=nowhere",), NETWORK, "no checkpoint 'nowhere'"),
    (("search.strategy.checkpoint=afar",), NETWORK, "no checkpoint 'afar'"),
]


@pytest.mark.parametrize("overrides, network, message", REFUSED)
def test_bad_input_is_one_clear_error(checkpoint, tmp_path, monkeypatch, capfd, overrides, network, message):
    monkeypatch.delitem(sys.modules, "tiny_network", raising=False)
    (tmp_path / "tiny_network.py").write_text(TINY)
    words = (f"network={network}", "inputs=[[1,64,28,28]]", f"checkpoint={checkpoint}", *overrides)
    assert status_of("tune", *words) == 2
    errors = capfd.readouterr().err
    assert re.search(message, errors), errors
    assert "Traceback" not in errors


def test_a_file_that_does_not_run_ends_a_run_before_its_search(tmp_path) -> None:
    onnx = pytest.importorskip("onnx")
    helper, real = onnx.helper, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "product",
        [helper.make_tensor_value_info("x", real, ["rows", "columns"])],
        [helper.make_tensor_value_info("y", real, ["rows", 2])],
        [onnx.numpy_helper.from_array(np.ones((4, 2), np.float32), "w")],
    )
    path = tmp_path / "product.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)

    def original(columns):
        config = TuneConfig(
            network=str(path),
            inputs=[[3, columns]],
            output=tmp_path / "report",
            database=tmp_path / "database",
        )
        return original_of(load_network(**config.network_arguments), config, StageClock())

    assert original(4).network.reference_outputs()[0].shape == (3, 2)
    with pytest.raises(BadInputShapeError, match=r"product\.onnx does not run on inputs \[\[3, 5\]\]"):
        original(5)


def test_a_task_whose_schedule_did_not_build_counts_as_untuned() -> None:
    task = make_task(predicted=True)
    assert _as_built(task, {"another": NOT_BUILT}) is task
    unbuilt = _as_built(task, {task.name: NOT_BUILT})
    assert (unbuilt.tuned_latency_s, unbuilt.predicted, unbuilt.reason) == (None, False, NOT_BUILT)
