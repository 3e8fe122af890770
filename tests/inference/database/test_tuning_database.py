"""The database of a tuning run."""

import math

import pytest
from foretune.compiler.replay import trace_to_json
from foretune.compiler.tvm_compat import parse_target
from foretune.dataset.hardware import Hardware
from foretune.dataset.measure import MeasureConfig, MeasureOutcome, WorkerPool
from foretune.dataset.sampling.programs import EvolutionaryConfig
from foretune.inference.database.tuning_database import TuningDatabase
from foretune.inference.search.candidate import Candidate, MeasuredCandidate, record_json
from support.checkpoints import HARDWARE, TARGET, TASK, random_checkpoint
from support.tuning import tuned
from tvm.s_tir import Schedule


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return random_checkpoint(tmp_path_factory.mktemp("checkpoint") / "random")


@pytest.fixture(scope="module")
def pool():
    with WorkerPool(TARGET, MeasureConfig(repeats=2, groups=1)) as pool:
        yield pool


def test_the_database_keeps_the_best_and_survives_a_torn_line(checkpoint, pool, tmp_path):
    assert TuningDatabase(tmp_path, TARGET, HARDWARE).best_latency_s(TASK) is None
    evolution = EvolutionaryConfig(population_size=16, generations=1)
    result, database = tuned(checkpoint, pool, tmp_path, evolution, rounds=1, top_k=4)
    ran = [latency_s for latency_s in result.measured_latencies_s if math.isfinite(latency_s)]
    assert sorted(database.latencies_s(TASK).values()) == pytest.approx(sorted(ran), rel=1e-6)
    best = result.tuned_latency_s
    assert math.isclose(database.best_latency_s(TASK), best, rel_tol=1e-6)

    records = database.folder / "database_tuning_record.json"
    whole = records.read_text()
    with records.open("a") as file:
        file.write(whole.splitlines()[0][:50])
    again = TuningDatabase(tmp_path, TARGET, HARDWARE)
    assert again.dropped_lines == 1
    assert math.isclose(again.best_latency_s(TASK), best, rel_tol=1e-6)
    assert records.read_text() == whole


def test_a_program_that_was_timed_again_has_its_shortest_latency(tmp_path):
    database = TuningDatabase(tmp_path, TARGET, HARDWARE)
    trace = Schedule(TASK.mod).trace
    program = Candidate(trace_to_json(trace), 0.5, record=record_json(trace))
    outcomes = [MeasureOutcome((seconds,)) for seconds in (3e-3, 2e-3)]
    database.commit(TASK, [MeasuredCandidate(program, outcome) for outcome in outcomes])
    assert database.latencies_s(TASK) == {program.trace: 2e-3}


def test_each_target_and_device_has_a_database_of_its_own(tmp_path):
    one_core = parse_target({"kind": "llvm", "num-cores": 1})
    folders = {
        TuningDatabase(tmp_path, target, hardware).folder
        for target in (TARGET, one_core)
        for hardware in (HARDWARE, Hardware("Other", "cpu", 2, 2.5, 256, 1, 1, 1, 1.0, 1.0))
    }
    assert len(folders) == 4
