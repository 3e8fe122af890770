"""The record store: round trips, damage, kills and two writers."""

import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from foretune.dataset.hardware import HARDWARE_DIM, Hardware, probe_cpu
from foretune.dataset.records import FailureKind, Record, TaskRow, record_key
from foretune.dataset.store import RecordStore, StoreError, StoreLockedError
from hypothesis import given
from hypothesis import strategies as st

HARDWARE = Hardware("Some CPU", "cpu", 2, 2.5, 256, 32768, 524288, 33554432, 100.0, 20.0)


def task_row(name="t0"):
    return TaskRow(name, f"conv2d_{name}", "conv2d", "{}", "operator", 1e6, '{"tir": 1}')


def record(number=0, run_secs=(2e-3, 1e-3), failure=None, task="t0"):
    return Record(
        workload_hash=task,
        trace=f"[[], [[{number}, 1]]]",
        run_secs=run_secs,
        failure=failure,
        failure_message="boom" if failure else "",
        cut_short=False,
        sampler="exploration/random",
        round=number,
        seed=0,
        hardware_id=HARDWARE.hardware_id,
        target='{"kind": "llvm"}',
        tvm_version="0.27.0",
        timestamp=1.5,
        build_s=0.5,
        run_s=0.25,
    )


@pytest.fixture
def store(tmp_path):
    store = RecordStore(tmp_path / "set")
    with store.writing():
        store.put_hardware(HARDWARE)
        store.append_tasks([task_row()])
        store.append_records([record(0), record(1, (), FailureKind.RUN_TIMEOUT)])
        store.append_records([record(2)])
    return store


def shards(store, kind="records"):
    return sorted(store.folder.glob(f"{kind}-*.parquet"))


def test_what_is_written_is_read(store):
    assert store.tasks() == [task_row()]
    assert store.records() == [record(0), record(1, (), FailureKind.RUN_TIMEOUT), record(2)]
    assert store.hardware() == {HARDWARE.hardware_id: HARDWARE}
    assert store.bad_shards == []


def test_a_measurement_stored_twice_is_read_once(store):
    with store.writing():
        store.append_records([record(0, (9.0,)), record(3)])
    assert [r.round for r in store.records()] == [0, 1, 2, 3]
    assert store.records()[0].run_secs == (2e-3, 1e-3)


def test_compacting_keeps_every_record(store):
    before = store.records()
    with store.writing():
        store.compact()
    assert len(shards(store)) == 1
    assert store.records() == before


@pytest.mark.parametrize("damage", ["truncate", "flip"])
def test_a_damaged_shard_is_named_set_aside_and_the_rest_is_read(store, damage):
    victim = shards(store)[0]
    content = bytearray(victim.read_bytes())
    if damage == "truncate":
        content = content[: len(content) // 2]
    else:
        content[len(content) // 2] ^= 1
    victim.write_bytes(content)
    assert [r.round for r in store.records()] == [2]
    assert [bad.path for bad in store.bad_shards] == [victim]
    with store.writing():
        assert [bad.path.name for bad in store.set_aside_bad_shards()] == [victim.name]
        store.append_records([record(0)])
    assert (store.folder / "set-aside" / victim.name).exists()
    assert sorted(r.round for r in store.records()) == [0, 2]


def test_compacting_never_drops_what_a_damaged_shard_may_hold(store):
    shards(store)[0].write_bytes(b"nothing")
    with store.writing(), pytest.raises(StoreError, match="damaged"):
        store.compact()
    assert len(shards(store)) == 2


def test_two_writers_exclude_each_other(store):
    with (
        store.writing(),
        pytest.raises(StoreLockedError, match="another run"),
        RecordStore(store.folder).writing(),
    ):
        pass


def test_another_schema_version_is_refused(store, monkeypatch):
    monkeypatch.setattr("foretune.dataset.store.READABLE_VERSIONS", (99,))
    with pytest.raises(StoreError, match="schema version 2"):
        store.records()


def test_a_folder_without_dataset_is_an_error(tmp_path):
    with pytest.raises(StoreError, match="foretune-generate"):
        RecordStore(tmp_path).require()


def test_a_full_disk_is_one_error_and_loses_nothing(store, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with store.writing(), pytest.raises(StoreError, match="No space left"):
        store.append_records([record(7)])
    monkeypatch.undo()
    assert len(store.records()) == 3
    assert not list(store.folder.glob("*.partial"))


WRITER = """
import sys
sys.path.insert(0, {tests!r})
from test_store import record
from foretune.dataset.store import RecordStore
store = RecordStore({folder!r})
with store.writing():
    print("ready", flush=True)
    for number in range(100, 100000):
        store.append_records([record(number)])
"""


def test_a_writer_killed_in_the_middle_leaves_whole_shards_and_no_lock(store):
    tests = str(Path(__file__).parent)
    code = WRITER.format(tests=tests, folder=str(store.folder))
    writer = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert writer.stdout.readline() == b"ready\n"
    time.sleep(0.3)
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    writer.stdout.close()
    records = store.records()
    assert store.bad_shards == []
    rounds = [r.round for r in records]
    assert rounds == [0, 1, 2, *range(100, 100 + len(rounds) - 3)]
    with store.writing():
        assert not list(store.folder.glob("*.partial"))


def test_a_record_has_latencies_or_a_failure():
    with pytest.raises(ValueError, match="either latencies or a failure"):
        record(0, run_secs=())
    with pytest.raises(ValueError, match="either latencies or a failure"):
        record(0, failure=FailureKind.BUILD_ERROR)
    assert record(0).latency_s == 1e-3
    assert record(0, (), FailureKind.BUILD_ERROR).latency_s == math.inf


@given(st.lists(st.text(), min_size=4, max_size=4), st.lists(st.text(), min_size=4, max_size=4))
def test_keys_differ_where_measurements_do(left, right):
    if any("\0" in text for text in (*left, *right)):
        return
    assert (record_key(*left) == record_key(*right)) == (left == right)


def test_this_machine_is_described():
    hardware = probe_cpu(1)
    assert hardware.cores == 1
    assert hardware.peak_gflops > 1
    assert hardware.bandwidth_gbs > 0.1
    assert hardware.features().shape == (HARDWARE_DIM,)
    assert Hardware.from_json(hardware.to_json()) == hardware
    assert probe_cpu(1).hardware_id == hardware.hardware_id


def test_a_text_that_is_no_description_is_an_error():
    with pytest.raises(ValueError, match="hardware description"):
        Hardware.from_json("{}")
