"""The command `foretune tune` on small networks, with a small random checkpoint."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import psutil
import pytest
import tvm
from foretune.compiler.networks import load_network
from foretune.compiler.networks.inputs import BadInputShapeError
from foretune.inference.deploy.fresh_process import CALLS
from foretune.inference.deploy.load import load
from foretune.inference.run.config import TuneConfig
from foretune.inference.run.conversion import original_of
from foretune.inference.run.network_run import _as_built
from foretune.inference.run.profiling import StageClock
from foretune.inference.run.result import BY_LOAD, BY_STOCK, NOT_BUILT
from foretune.inference.run.result_file import load_result
from support.checkpoints import random_checkpoint
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

class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(64, 32)

    def forward(self, x):
        return self.head(x).relu()

class Branches(nn.Module):
    def forward(self, x):
        return x + 1 if x.sum() > 0 else x - 1
"""


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return random_checkpoint(tmp_path_factory.mktemp("checkpoint") / "random")


def launch(folder, checkpoint, *overrides, network=NETWORK):
    (folder / "tiny_network.py").write_text(TINY)
    command = [
        *(sys.executable, "-m", "foretune", "tune"),
        *(f"network={network}", "inputs=[[1,64,28,28]]", f"checkpoint={checkpoint}"),
        *("search.top_k=3", "search.rounds=1"),
        *("search.strategy.population=64", "search.strategy.generations=1", "search.strategy.keep=8"),
        *("timing_repeats=3", "rivals=[eager]", "measure.repeats=2", "measure.groups=1"),
        *overrides,
    ]
    return subprocess.Popen(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ,
        # Tests that run in the background of a shell ignore Ctrl-C, and what they start inherits that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


@pytest.mark.slow
def test_a_network_is_tuned_interrupted_and_resumed(checkpoint, tmp_path):
    # Rounds that it will not come to keep it from being done before it is interrupted.
    process = launch(tmp_path, checkpoint, "search.extra_rounds=1000")
    records = tmp_path / "outputs" / "tuning-database"
    for _ in range(1200):  # until the first task is in the database
        if any(path.stat().st_size for path in records.glob("*/database_tuning_record.json")):
            break
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 130, output + errors
    assert "what was measured is kept" in " ".join(output.split())  # wherever a narrow console breaks it
    assert "the same command continues" in errors
    assert "Traceback" not in errors

    process = launch(tmp_path, checkpoint, "export=tiny.so")
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, output + errors
    assert "wrote tiny.so: foretune.load('tiny.so')(*inputs)" in output
    assert "Scope Saving" not in errors
    folder = tmp_path / "outputs" / "tune" / "Tiny"
    (report,) = (tmp_path / "outputs" / "tune").rglob("report.json")
    result = json.loads(report.read_text())
    assert any(task["from_database"] for task in result["tasks"])
    assert result["max_abs_difference"] <= result["tolerance"]
    contestants = {one["name"]: one for one in result["contestants"]}
    assert set(contestants) == {"tuned TVM", "untuned TVM", "PyTorch eager"}
    assert all(one["own_process"] and not one["error"] for one in contestants.values())
    assert {stats["name"] for stats in result["exported"]} == {BY_LOAD, BY_STOCK}
    assert all(len(stats["samples_s"]) == CALLS for stats in result["exported"])
    profiled = {call["task"] for call in result["network_profile"]["calls"]} - {""}
    assert profiled == {task["name"] for task in result["tasks"] if task["weight"]}
    assert result["peak_gflops"] > 1
    assert report.with_suffix(".html").exists()
    assert report.parent == folder
    network = load(tmp_path / "tiny.so")
    assert network(np.zeros((1, 64, 28, 28), np.float32)).shape == (1, 10)


@pytest.mark.slow
def test_a_kill_loses_no_task_that_was_done(checkpoint, tmp_path):
    process = launch(tmp_path, checkpoint, "profile=true")
    records = tmp_path / "outputs" / "tuning-database"
    for _ in range(2400):
        if any(path.stat().st_size for path in records.glob("*/database_tuning_record.json")):
            break
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    children = psutil.Process(process.pid).children(recursive=True)
    assert children  # processes that search and that measure
    process.kill()
    process.communicate()
    _, alive = psutil.wait_procs(children, timeout=30)
    assert not alive

    process = launch(tmp_path, checkpoint, "profile=true", "untuned_limit_s=1e-9")
    output, errors = process.communicate(timeout=400)
    assert process.returncode == 0, output + errors
    assert "replay and postprocessing" in output
    (report,) = (tmp_path / "outputs" / "tune").rglob("report.json")
    result = load_result(report)
    told = " ".join(output.split())  # wherever a narrow console breaks it
    # Other tests on the machine may disturb the timing.
    assert ("the untuned tasks sum to" in told) is (result.median_s("tuned TVM") is not None)
    assert "disturbed" in told or result.median_s("tuned TVM") is not None
    assert any(task.from_database for task in result.tasks)
    assert result.outputs_match
    assert {one.name for one in result.contestants} == {"tuned TVM", "PyTorch eager"}
    assert {"features", "prediction", "building", "timing"} <= set(result.profile_s)


@pytest.mark.slow
def test_a_dry_run_searches_and_builds_for_a_gpu_that_is_not_there(checkpoint, tmp_path):
    process = launch(
        tmp_path,
        checkpoint,
        *(
            "executor=dry_run",
            "target=nvidia/nvidia-a100",
            "checkpoint=auto",
            "inputs=[[8,64]]",
            "search.processes=0",
        ),
        network="tiny_network:Head",
    )
    output, errors = process.communicate(timeout=400)
    assert process.returncode == 0, output + errors
    assert "made up" in output and "the network is not timed" in output
    told = " ".join(output.split())
    assert "no checkpoint" not in told and "no draft checkpoint" not in told
    (report,) = (tmp_path / "outputs" / "tune").rglob("report.json")
    result = load_result(report)
    assert result.simulated
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

FORKED = """
import os, sys

import foretune.inference.tune  # before the forks
from foretune.cli import main

for line in sys.stdin:
    child = os.fork()
    if not child:
        main(["tune", *line.split()])
        os._exit(0)
    _, status = os.waitpid(child, 0)
    print(f"status {os.waitstatus_to_exitcode(status)}", file=sys.stderr, flush=True)
"""
"""The command in a process of its own for each line of its input, without the seconds that imports take."""


@pytest.fixture(scope="module")
def command(tmp_path_factory):
    folder = tmp_path_factory.mktemp("refused")
    (folder / "tiny_network.py").write_text(TINY)
    with subprocess.Popen(
        [sys.executable, "-c", FORKED],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        yield process
        process.kill()


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("overrides, network, message", REFUSED)
def test_bad_input_is_one_clear_error(command, checkpoint, overrides, network, message):
    words = [f"network={network}", "inputs=[[1,64,28,28]]", f"checkpoint={checkpoint}", *overrides]
    command.stdin.write(" ".join(words) + "\n")
    command.stdin.flush()
    errors = ""
    while (line := command.stderr.readline()) and not line.startswith("status "):
        errors += line
    assert line.startswith("status ") and line != "status 0\n"
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
