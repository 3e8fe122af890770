"""Generation end to end on real TVM: records, resume, Ctrl-C, kill -9, and features of the records."""

import signal
import subprocess
import sys
import time

import numpy as np
import psutil
import pytest
from foretune.dataset import generate
from foretune.dataset.features.dataset import EmptyDatasetError, load_labelled_features
from foretune.dataset.generate import GenerateConfig, GenerateConfigError
from foretune.dataset.measure import MeasureConfig
from foretune.dataset.program_sampling import ExplorationConfig, SamplingError, make_scorer
from foretune.dataset.store import RecordStore
from foretune.dataset.tvm_compat import UnknownTargetError
from rich.console import Console

TASKS = {"sampler": "uniform", "operators": {"dense": 1.0}, "max_flops": 2e6}
QUICK = MeasureConfig(repeats=2, groups=1)


def config(folder, **changes):
    defaults = {
        "tasks": 2,
        "records_per_task": 6,
        "per_round": 6,
        "scorer": "random",
        "task_sampling": TASKS,
        "exploration": ExplorationConfig(population_size=8, generations=1),
        "measure": QUICK,
    }
    return GenerateConfig(dataset=folder, **{**defaults, **changes})


def quiet_run(run_config):
    return generate.run(run_config, Console(quiet=True))


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    folder = tmp_path_factory.mktemp("generate") / "set"
    summary = quiet_run(config(folder))
    assert summary.tasks_done == 2
    assert summary.measured == summary.total_records >= 8
    return folder


def test_records_are_measured_and_described(dataset):
    store = RecordStore(dataset)
    tasks, records = store.tasks(), store.records()
    assert {record.workload_hash for record in records} == {task.workload_hash for task in tasks}
    assert all(0 < record.latency_s < 1 for record in records)
    assert {record.hardware_id for record in records} == set(store.hardware())
    assert len({record.key for record in records}) == len(records)
    assert len(list(dataset.glob("records-*.parquet"))) == 1


def test_the_same_command_measures_nothing_twice(dataset):
    before = RecordStore(dataset).records()
    summary = quiet_run(config(dataset))
    assert summary.measured == 0
    assert RecordStore(dataset).records() == before


def test_asking_for_more_continues(dataset):
    before = {record.key for record in RecordStore(dataset).records()}
    summary = quiet_run(config(dataset, records_per_task=24))
    after = {record.key for record in RecordStore(dataset).records()}
    assert before < after
    assert summary.measured == len(after) - len(before)


def test_features_follow_the_records(dataset, tmp_path):
    labelled = load_labelled_features(dataset, cache=tmp_path)
    records = sorted((r.workload_hash, r.latency_s) for r in RecordStore(dataset).records() if not r.failure)
    found = zip(labelled.workload_hash.tolist(), labelled.latency_s.tolist(), strict=True)
    assert sorted(found) == records
    assert len(labelled.features) == len(records)
    assert np.isfinite(labelled.features.stores).all()
    assert (np.diff(labelled.features.store_offsets) > 0).all()
    assert set(labelled.operator) == {"dense"}
    again = load_labelled_features(dataset, cache=tmp_path)
    np.testing.assert_array_equal(again.features.decisions, labelled.features.decisions)
    np.testing.assert_array_equal(again.latency_s, labelled.latency_s)


def test_a_damaged_cache_is_made_again(dataset, tmp_path):
    labelled = load_labelled_features(dataset, cache=tmp_path)
    (path,) = tmp_path.glob("features-*.npz")
    path.write_bytes(path.read_bytes()[:100])
    again = load_labelled_features(dataset, cache=tmp_path)
    np.testing.assert_array_equal(again.features.stores, labelled.features.stores)


def test_a_dataset_without_records_has_no_features(dataset, tmp_path):
    store = RecordStore(tmp_path / "empty")
    with store.writing():
        store.append_tasks(RecordStore(dataset).tasks())
    with pytest.raises(EmptyDatasetError, match="foretune-generate"):
        load_labelled_features(tmp_path / "empty", cache=tmp_path)


def launch(folder):
    overrides = [
        f"dataset={folder}",
        "tasks=3",
        "records_per_task=400",
        "per_round=8",
        "scorer=random",
        "exploration.population_size=8",
        "exploration.generations=0",
        "measure.repeats=1",
        "measure.groups=1",
        "task_sampling.sampler=uniform",
        "task_sampling.operators={dense: 1.0}",
        "task_sampling.max_flops=2e6",
    ]
    return subprocess.Popen(
        [sys.executable, "-m", "foretune.dataset.generate", *overrides],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=folder.parent,
    )


def wait_for_records(process, folder, shards=2):
    for _ in range(600):
        if len(list(folder.glob("records-*.parquet"))) >= shards:
            return
        assert process.poll() is None, process.stdout.read().decode()
        time.sleep(0.1)
    pytest.fail("no records within a minute")


@pytest.mark.slow
def test_a_killed_run_loses_only_the_batch_in_flight_and_leaves_no_workers(tmp_path):
    folder = tmp_path / "set"
    process = launch(folder)
    wait_for_records(process, folder)
    workers = subprocess.run(
        ["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=False
    ).stdout.split()
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    store = RecordStore(folder)
    kept = store.records()
    assert len(kept) >= 8
    assert store.bad_shards == []
    assert workers
    _, alive = psutil.wait_procs([psutil.Process(int(p)) for p in workers if psutil.pid_exists(int(p))], 5)
    assert [worker for worker in alive if worker.status() != psutil.STATUS_ZOMBIE] == []

    process = launch(folder)
    wait_for_records(process, folder, shards=len(list(folder.glob("records-*.parquet"))) + 1)
    process.send_signal(signal.SIGINT)
    output = process.communicate(timeout=60)[0].decode()
    assert process.returncode == 130, output
    assert "run the same command again" in output
    records = RecordStore(folder).records()
    assert {record.key for record in kept} < {record.key for record in records}


@pytest.mark.parametrize(
    "changes, error, message",
    [
        ({"target": "bogus"}, UnknownTargetError, "target='bogus'"),
        ({"target": "nvidia/nvidia-a100"}, GenerateConfigError, "CPU targets only"),
        ({"scorer": "oracle"}, SamplingError, "scorer='oracle'"),
    ],
)
def test_settings_that_cannot_be_are_named(tmp_path, changes, error, message):
    with pytest.raises(error, match=message):
        quiet_run(config(tmp_path / "set", **changes))
    assert not (tmp_path / "set").exists()


def test_counts_must_be_positive(tmp_path):
    with pytest.raises(GenerateConfigError, match="tasks=0"):
        config(tmp_path, tasks=0)


def test_an_unknown_option_is_an_error_of_the_command(tmp_path):
    run = subprocess.run(
        [sys.executable, "-m", "foretune.dataset.generate", "recods_per_task=3"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert run.returncode != 0
    assert "recods_per_task" in run.stderr


def test_random_scoring_needs_no_xgboost(monkeypatch):
    monkeypatch.setitem(sys.modules, "xgboost", None)
    assert make_scorer("random", warm_up=1) is not None
    with pytest.raises(SamplingError, match="pip install"):
        make_scorer("xgboost", warm_up=1)
