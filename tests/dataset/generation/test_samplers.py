"""Tests of sampler processes: what they propose, and what is left after one dies, hangs or fails."""

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import tvm
from foretune.compiler.operators import Dense, to_task
from foretune.compiler.tvm_compat import NoDesignSpaceError
from foretune.dataset.generation.config import GenerateConfig
from foretune.dataset.generation.samplers import (
    SamplerProcesses,
    SamplingFailedError,
    SamplingStoppedError,
    make_samplers,
    sampler_spec,
)
from foretune.dataset.generation.sampling import SamplingRequest
from foretune.dataset.generation.throughput import GenerationClock
from foretune.dataset.records.stored_tasks import task_row
from foretune.dataset.sampling.programs import EvolutionaryConfig, ProgramSamplingConfig
from support.cpus import cpu
from support.programs import Doubled

TARGET = cpu("cooperlake")
EXPLORE = ProgramSamplingConfig(
    scorer="random", evolutionary=EvolutionaryConfig(population_size=8, generations=1)
)
OUTCOME = [[1e-3], None, ""]


def request(rows: int = 8, **changes) -> SamplingRequest:
    task = to_task(Dense(rows=rows, in_features=32, out_features=32))
    return SamplingRequest(vars(task_row(task)), **{"per_round": 4, "seed": 3, **changes})


def processes(count=1, timeout_s=120.0, stopped=lambda: False) -> SamplerProcesses:
    return SamplerProcesses(count, sampler_spec(EXPLORE, TARGET), GenerationClock(), timeout_s, stopped)


@pytest.fixture(scope="module")
def pair():
    with processes(2) as samplers:
        samplers.wait_ready()
        yield samplers


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def traces(drawn) -> list[str]:
    return [trace for trace, _ in drawn.proposed]


def test_the_seed_alone_decides_what_a_task_measures(tmp_path):
    config = GenerateConfig(dataset=tmp_path, program_sampling=replace(EXPLORE, scorer="xgboost"))
    found = []
    for count in (1, 0):
        with make_samplers(count, config, TARGET, GenerationClock(), lambda: False) as samplers:
            sampling, other = samplers.open(request()), samplers.open(request(16))
            first = sampling.next_round()
            if count:
                other.next_round()  # another task of the process changes nothing
            second = sampling.next_round([OUTCOME] * len(first.proposed))
            found.append([first.proposed, second.proposed])
    assert found[0] == found[1]
    assert not set(traces(first)) & set(traces(second))


def test_tasks_are_spread_over_the_processes_and_leave_them(pair):
    opened = [pair.open(request(rows)) for rows in (8, 16, 24, 32)]
    assert [len(process.tasks) for process in pair._processes] == [2, 2]
    for sampling in opened:
        sampling.close()
    assert [len(process.tasks) for process in pair._processes] == [0, 0]


def test_a_killed_process_is_replaced_and_its_task_goes_on(pair):
    sampling = pair.open(request())
    first = sampling.next_round()
    before = pair.pids
    for pid in before:
        kill(pid)
    second = sampling.next_round([OUTCOME] * len(first.proposed))
    assert second.proposed and not set(traces(first)) & set(traces(second))
    assert set(pair.pids) != set(before)
    sampling.close()


def test_a_hanging_process_costs_its_task_alone():
    with processes(2, timeout_s=1.0) as samplers:
        samplers.wait_ready()
        hanging, other = samplers.open(request()), samplers.open(request(16))
        real = samplers._processes[0]
        real._replace = lambda: None  # the next one hangs, too
        os.kill(real.worker.pid, signal.SIGSTOP)
        with pytest.raises(SamplingFailedError, match="no answer within 1 s"):
            hanging.next_round()
        os.kill(real.worker.pid, signal.SIGCONT)
        samplers._processes[1]._timeout_s = 120.0
        assert other.next_round().proposed


def test_a_run_that_ends_waits_for_no_round():
    ended = threading.Event()
    with processes(stopped=ended.is_set) as samplers:
        samplers.wait_ready()
        os.kill(samplers.pids[0], signal.SIGSTOP)
        threading.Timer(0.3, ended.set).start()
        began = time.monotonic()
        with pytest.raises(SamplingStoppedError):
            samplers.open(request()).next_round()
        assert time.monotonic() - began < 30


def test_a_task_that_fails_is_told_and_spares_the_process(pair):
    bad = request()
    broken = SamplingRequest({**bad.row, "tir": "no module"}, per_round=4, seed=3)
    failing, fine = pair.open(broken), pair.open(request())
    fine._process = failing._process
    with pytest.raises(SamplingFailedError):
        failing.next_round()
    pid = failing._process.worker.pid
    assert fine.next_round().proposed
    assert failing._process.worker.pid == pid


def test_a_task_with_nothing_to_tune_is_told_apart(pair):
    nothing = {**request().row, "tir": tvm.ir.save_json(Doubled)}
    with pytest.raises(NoDesignSpaceError, match="no tunable decision"):
        pair.open(SamplingRequest(nothing, per_round=4, seed=3)).next_round()


def wait_for_standstill(pids) -> None:
    deadline = time.monotonic() + 60
    while {Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] for pid in pids} != {"T"}:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_paused_processes_stand_still():
    with processes(2) as samplers:
        samplers.wait_ready()
        with samplers.paused():
            wait_for_standstill(samplers.pids)
        assert samplers.open(request()).next_round().proposed


def test_what_replaces_a_process_during_a_pause_is_paused():
    with processes() as samplers, ThreadPoolExecutor(1) as thread:
        samplers.wait_ready()
        before = samplers.pids
        with samplers.paused():
            drawing = thread.submit(samplers.open(request()).next_round)
            kill(before[0])
            deadline = time.monotonic() + 60
            while samplers.pids == before:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            wait_for_standstill(samplers.pids)
            assert not drawing.done()
        assert drawing.result().proposed


def test_only_a_process_with_a_pretrained_scorer_imports_torch():
    assert not sampler_spec(EXPLORE, TARGET).torch
    assert sampler_spec(replace(EXPLORE, scorer="cpu"), TARGET).torch
