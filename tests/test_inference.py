"""The plug-in and the One-Shot search on real TVM, with a small random checkpoint."""

import json
import logging
import math
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import psutil
import pytest
import torch
import tvm
from foretune.dataset.features import FEATURE_VERSION
from foretune.dataset.features.assembly import FeatureAssembler
from foretune.dataset.hardware import Hardware
from foretune.dataset.measure import MeasureConfig, WorkerPool
from foretune.dataset.operators import Dense, to_task
from foretune.dataset.replay import replay, trace_to_json
from foretune.dataset.tvm_compat import (
    NoDesignSpaceError,
    as_task_module,
    design_spaces,
    make_tune_context,
    parse_target,
    trace_as_json,
)
from foretune.inference import PretrainedCostModel, prepare_builder
from foretune.inference.one_shot import OneShotConfig, OneShotConfigError, search_one_shot
from foretune.inference.search_config import DraftingConfig
from foretune.inference.tune_result import load_result
from foretune.inference.tuning_database import TuningDatabase
from foretune.models.card import Card, DataSummary, SplitSummary
from foretune.models.checkpoint import CheckpointNotFoundError, save_checkpoint
from foretune.models.normaliser import Normaliser
from foretune.models.registry import ModelConfig, build_model
from foretune.models.target import TargetConfig
from tvm import te
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.schedule import Schedule

HARDWARE = Hardware("Some CPU", "cpu", 2, 2.5, 256, 32768, 524288, 33554432, 100.0, 20.0)
TARGET = parse_target("llvm")
TASK = to_task(Dense(rows=8, in_features=64, out_features=32, epilogue="bias_relu"))


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A model with random weights, normalised on real candidates."""
    table = FeatureAssembler(HARDWARE).assemble(*candidates_of(TASK))
    normaliser = Normaliser.fit(table, np.arange(len(table)))
    config = ModelConfig("transformer", {"width": 16, "layers": 1, "heads": 2, "feedforward": 16})
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("checkpoint") / "random"
    card = Card(
        feature_version=FEATURE_VERSION,
        model=config,
        target=TargetConfig("score"),
        normaliser=normaliser,
        data=DataSummary("0" * 64, records=6, tasks=1, hardware_ids=[], operators=["dense"]),
        split=SplitSummary({"by": "task", "seed": 0}, [], [], []),
        metrics={},
        seed=0,
    )
    save_checkpoint(folder, build_model(config, normaliser.dims), card)
    return folder


@pytest.fixture(scope="module")
def model(checkpoint):
    return PretrainedCostModel.load(checkpoint, HARDWARE)


@pytest.fixture(scope="module")
def pool():
    with WorkerPool(TARGET, MeasureConfig(repeats=2, groups=1)) as pool:
        yield pool


def candidates_of(task, count=6):
    """Sampled candidates of a task with their context, one of them for each design space in turn."""
    context = make_tune_context(task.mod, TARGET, seed=0, name=task.name)
    spaces = design_spaces(context, task.name)
    found = []
    while len(found) < count:
        candidate = replay(context, spaces[len(found) % len(spaces)].trace.as_json())
        assert candidate is not None
        found.append(candidate)
    return context, found


def test_scores_are_one_finite_number_a_candidate(model):
    context, candidates = candidates_of(TASK)
    scores = model.predict(context, candidates)
    assert scores.shape == (6,)
    assert scores.dtype == np.float64
    assert np.isfinite(scores).all()
    assert model._inst.predict(context, []).shape == (0,)  # MetaSchedule itself never asks for none


def test_serving_computes_what_training_computes(model):
    """One assembly: a candidate's score does not depend on who else is in the batch."""
    context, candidates = candidates_of(TASK)
    together = model.predict(context, candidates)
    alone = [model.predict(context, [candidate])[0] for candidate in candidates]
    np.testing.assert_allclose(together, alone, rtol=1e-4, atol=1e-5)


def test_a_trace_survives_text_and_replay():
    context, (candidate, *_) = candidates_of(TASK, 1)
    text = trace_to_json(candidate.sch.trace)
    again = replay(context, text)
    assert again is not None
    assert trace_to_json(again.sch.trace) == text
    assert again.sch.mod.script() == candidate.sch.mod.script()


def test_traces_are_written_as_tvm_writes_them():
    """TVM's own conversion is the reference, for what search makes and for what an instruction may hold."""
    _, candidates = candidates_of(TASK, 4)
    schedule = Schedule(TASK.mod)
    block = schedule.get_child_blocks(schedule.get_sblock("root"))[0]
    schedule.transform_layout(block, ("write", 0), lambda i, j: (j, i))
    schedule.annotate(block, "anything", {"a": [1, 2.5, "x"], "b": 3})
    for trace in [schedule.trace, *(candidate.sch.trace for candidate in candidates)]:
        expected = json.dumps(trace.as_json(), default=lambda immediate: immediate.value)
        assert json.dumps(trace_as_json(trace)) == expected


def test_a_trace_of_another_task_does_not_replay():
    _, (candidate, *_) = candidates_of(TASK, 1)
    other = te.placeholder((4,), name="a")
    task = as_task_module(te.create_prim_func([other, te.compute((4,), lambda i: other[i] + 1)]))
    context = make_tune_context(task, TARGET, seed=0)
    assert replay(context, trace_to_json(candidate.sch.trace)) is None


def test_stock_tune_tir_takes_the_model(model, tmp_path, monkeypatch):
    # MetaSchedule cannot name the handlers that other tests of this process have given its logger.
    monkeypatch.setattr(logging.getLogger("tvm.s_tir.meta_schedule"), "handlers", [])
    before = model.candidates_scored
    database = ms.tune_tir(
        TASK.mod,
        TARGET,
        str(tmp_path),
        max_trials_global=4,
        num_trials_per_iter=4,
        cost_model=model,
        strategy=ms.search_strategy.EvolutionarySearch(population_size=8, init_min_unmeasured=4),
        builder=ms.builder.LocalBuilder(initializer=prepare_builder),
        seed=1,
    )
    assert model.candidates_scored > before
    assert database.query_tuning_record(TASK.mod, TARGET, "main") is not None


@pytest.mark.parametrize(("strategy", "rounds"), [("evolutionary", 1), ("evolutionary", 2), ("draft", 2)])
def test_each_round_measures_its_best_in_order_of_prediction(model, pool, strategy, rounds):
    draft = DraftingConfig(population=64, generations=1, keep=16)
    config = OneShotConfig(strategy, rounds, population_size=16, generations=1, top_k=6, draft=draft)
    result = search_one_shot(TASK, TARGET, model, pool, config)
    scores = [validation.predicted_score for validation in result.validations]
    assert len(scores) == 6
    of_a_round = 6 // rounds
    for start in range(0, 6, of_a_round):
        batch = scores[start : start + of_a_round]
        assert batch == sorted(batch, reverse=True)
    assert len({v.proposal.trace for v in result.validations}) == 6
    assert result.candidates_scored >= rounds * (16 if strategy == "evolutionary" else 6)
    latencies = [validation.outcome.latency_s for validation in result.validations]
    assert result.best.outcome.latency_s == min(latencies)


def test_the_database_keeps_the_best_and_survives_a_torn_line(model, pool, tmp_path):
    config = OneShotConfig("evolutionary", population_size=16, generations=1, rounds=1, top_k=4)
    result = search_one_shot(TASK, TARGET, model, pool, config)
    database = TuningDatabase(tmp_path, TARGET, HARDWARE)
    assert database.best_latency_s(TASK) is None
    database.commit(TASK, result.validations)
    assert database.latencies_s(TASK) == pytest.approx(
        {v.proposal.trace: v.latency_s for v in result.validations if math.isfinite(v.latency_s)}, rel=1e-6
    )
    best = result.best.outcome.latency_s
    assert math.isclose(database.best_latency_s(TASK), best, rel_tol=1e-6)

    records = database.folder / "database_tuning_record.json"
    whole = records.read_text()
    with records.open("a") as file:
        file.write(whole.splitlines()[0][:50])
    again = TuningDatabase(tmp_path, TARGET, HARDWARE)
    assert again.dropped_lines == 1
    assert math.isclose(again.best_latency_s(TASK), best, rel_tol=1e-6)
    assert records.read_text() == whole


def test_each_target_and_device_has_a_database_of_its_own(tmp_path):
    one_core = parse_target({"kind": "llvm", "num-cores": 1})
    folders = {
        TuningDatabase(tmp_path, target, hardware).folder
        for target in (TARGET, one_core)
        for hardware in (HARDWARE, Hardware("Other", "cpu", 2, 2.5, 256, 1, 1, 1, 1.0, 1.0))
    }
    assert len(folders) == 4


def test_a_task_without_decisions_has_no_design_space():
    a = te.placeholder((1,), name="a")
    mod = as_task_module(te.create_prim_func([a, te.compute((1,), lambda i: a[i])]))
    context = make_tune_context(mod, TARGET, seed=0)
    with pytest.raises(NoDesignSpaceError, match="task=copy"):
        design_spaces(context, "copy")


@pytest.mark.parametrize(
    "field, value",
    [("top_k", 0), ("generations", -1), ("random_share", 1.5), ("rounds", OneShotConfig().top_k + 1)],
)
def test_search_settings_that_cannot_be_are_named(field, value):
    with pytest.raises(OneShotConfigError, match=rf"search\.{field}={value}"):
        OneShotConfig(**{field: value})


def test_an_unknown_checkpoint_is_an_error():
    with pytest.raises(CheckpointNotFoundError, match="no-such-checkpoint"):
        PretrainedCostModel.load("no-such-checkpoint", HARDWARE)


# -- the command

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


def launch(folder, checkpoint, *overrides, network=NETWORK):
    (folder / "tiny_network.py").write_text(TINY)
    command = [
        *(sys.executable, "-m", "foretune.inference.tune"),
        *(f"network={network}", "inputs=[[1,64,28,28]]", f"checkpoint={checkpoint}"),
        *("search.population_size=8", "search.generations=1", "search.top_k=3", "search.rounds=1"),
        *("search.draft.population=64", "search.draft.generations=1", "search.draft.keep=8"),
        *("timing_repeats=3", "measure.repeats=2", "measure.groups=1"),
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
    assert "the same command goes on" in errors
    assert "Traceback" not in errors

    process = launch(tmp_path, checkpoint)
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, output + errors
    folder = tmp_path / "outputs" / "tune" / "tiny_network:Tiny"
    (report,) = (tmp_path / "outputs" / "tune").rglob("report.json")
    result = json.loads(report.read_text())
    assert any(task["from_database"] for task in result["tasks"])
    assert result["max_abs_difference"] <= result["tolerance"]
    assert {stats["name"] for stats in result["latencies"]} == {"tuned TVM", "untuned TVM", "PyTorch eager"}
    assert report.with_suffix(".html").exists()
    assert report.parent == folder


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
    assert "untuned tasks take" in " ".join(output.split())  # wherever a narrow console breaks it
    (report,) = (tmp_path / "outputs" / "tune").rglob("report.json")
    result = load_result(report)
    assert any(task.from_database for task in result.tasks)
    assert result.outputs_match
    assert {stats.name for stats in result.latencies} == {"tuned TVM", "PyTorch eager"}
    assert {"features", "prediction", "building", "timing"} <= set(result.profile_s)


@pytest.mark.slow
def test_a_rehearsal_searches_and_builds_for_a_gpu_that_is_not_there(checkpoint, tmp_path):
    process = launch(
        tmp_path,
        checkpoint,
        *("executor=dry_run", "target=nvidia/nvidia-a100", "inputs=[[8,64]]", "search.processes=0"),
        network="tiny_network:Head",
    )
    output, errors = process.communicate(timeout=400)
    assert process.returncode == 0, output + errors
    assert "made up" in output and "the network is not timed" in output
    assert output.count("no draft checkpoint for cuda") == 1  # and so the search is evolutionary
    (report,) = (tmp_path / "outputs" / "tune").rglob("report.json")
    result = load_result(report)
    assert result.simulated
    assert result.latencies == []
    assert result.outputs_match is None
    assert sum(task.candidates_measured for task in result.tasks) > 0
    assert "dry run" in result.hardware


REFUSED = [
    ((), "resnet81", "did you mean resnet18"),
    ((), "tiny_network:Branches", "does not export|torch.export failed"),
    (("target=bogus",), NETWORK, "target='bogus'"),
    pytest.param(
        *(("target=nvidia/nvidia-a100",), NETWORK, "no CUDA device here"),
        marks=pytest.mark.skipif(tvm.cuda().exist, reason="there is a CUDA device here"),
    ),
    (("executor=dry_run", "executor.kind=quantum"), NETWORK, "executor=quantum"),
    (("search=fastest",), NETWORK, "search/fastest"),
    (("budget_s=-1",), NETWORK, "budget_s=-1"),
    (("search.stop.minimum=0",), NETWORK, r"search\.stop\.minimum=0"),
    (("report.power_w=-5",), NETWORK, r"report\.power_w=-5"),
    (("report.beside=nowhere.json",), NETWORK, "nowhere.json"),
    (("search.top_k=0",), NETWORK, "search.top_k=0"),
    (("serch.top_k=1",), NETWORK, "serch"),
    (("checkpoint=nowhere",), NETWORK, "no checkpoint 'nowhere'"),
    (("search.draft.checkpoint=afar",), NETWORK, "no checkpoint 'afar'"),
]

FORKED = """
import os, sys

from foretune.inference import tune

for line in sys.stdin:
    child = os.fork()
    if not child:
        sys.argv[1:] = line.split()
        tune.main()
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
