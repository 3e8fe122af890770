"""Tests of the record store: round trips, damage, kills and two writers."""

import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from foretune.dataset.hardware import HARDWARE_DIM, Hardware, probe_cpu
from foretune.dataset.records import store as store_module
from foretune.dataset.records.schema import RECORD_SCHEMA, FailureKind, record_key
from foretune.dataset.records.store import RecordStore, StoreError, StoreLockedError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.paths import TESTS
from support.records import HARDWARE, put_shard, record, task_row


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


def test_records_of_some_tasks_are_read_alone(store):
    with store.writing():
        store.append_records([record(3, task="t1"), record(4), record(5, task="t2")])
    assert store.records({"t1", "t2"}) == [record(3, task="t1"), record(5, task="t2")]
    assert store.records([]) == []


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


@pytest.mark.parametrize(
    ("version", "later"),
    [("1", ["disturbed", "simulated", "probe_ratio", "moved_bytes"]), ("2", ["moved_bytes"])],
)
def test_shards_of_earlier_versions_are_read_with_defaults(store, version, later):
    old = store.columns(*(name for name in RECORD_SCHEMA.names if name not in later)).slice(0, 1)
    old = old.set_column(0, "workload_hash", pa.array(["t1"]))
    put_shard(store, old, version)
    assert store.records()[-1] == record(0, task="t1")
    defaults = {"disturbed": False, "simulated": False, "probe_ratio": None, "moved_bytes": None}
    assert store.columns(*later).to_pylist()[-1] == {name: defaults[name] for name in later}
    counted = replace(record(7, task="t1"), moved_bytes=12288.0)
    with store.writing():
        store.append_records([counted])
        store.compact()
    assert store.records()[-2:] == [record(0, task="t1"), counted]


def test_a_newer_schema_version_is_refused(store):
    put_shard(store, store.columns(*RECORD_SCHEMA.names), "4")
    with pytest.raises(StoreError, match="schema version 4, but this foretune reads 1, 2, 3; use"):
        store.records()
    with pytest.raises(StoreError, match="schema version 4"), store.writing():
        store.compact()


def test_some_columns_are_read_once_a_record(store):
    with store.writing():
        store.append_records([record(0), record(3)])
    columns = store.columns("key", "round")
    assert columns.column_names == ["key", "round"]
    assert columns.to_pylist() == [{"key": r.key, "round": r.round} for r in store.records()]
    assert RecordStore(store.folder / "none").columns("key", "round").schema == columns.schema


def test_a_record_moved_by_a_compaction_meanwhile_is_read(store, monkeypatch):
    read_shard = store_module.read_shard
    writer = RecordStore(store.folder)

    def compacting_first(path, wanted):
        monkeypatch.setattr(store_module, "read_shard", read_shard)
        with writer.writing():
            writer.compact()
        return read_shard(path, wanted)

    monkeypatch.setattr(store_module, "read_shard", compacting_first)
    assert sorted(r.round for r in store.records()) == [0, 1, 2]
    assert store.bad_shards == []


def test_compacting_keeps_shards_small_and_full_ones_as_they_are(store, monkeypatch):
    monkeypatch.setattr(store_module, "SHARD_ROWS", 4)
    with store.writing():
        store.append_records([record(number) for number in range(3, 9)])
        assert [len(pq.read_table(path)) for path in shards(store)] == [2, 1, 4, 2]
        full = shards(store)[2]
        store.append_records([record(3)])
        store.compact()
    assert full in shards(store)
    assert [len(pq.read_table(path)) for path in shards(store)] == [4, 4, 1]
    assert sorted(r.round for r in store.records()) == list(range(9))


def test_compacting_drops_doubles_from_the_disk(store):
    with store.writing():
        store.compact()
        store.append_records([record(0)])
        store.compact()
    (shard,) = shards(store)
    assert len(pq.read_table(shard)) == 3


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(position=st.integers(0, 10**6), mask=st.integers(1, 255))
def test_any_flipped_byte_is_detected(store, position, mask):
    victim = shards(store)[0]
    whole = victim.read_bytes()
    damaged = bytearray(whole)
    damaged[position % len(whole)] ^= mask
    victim.write_bytes(damaged)
    assert [bad.path for bad in store.check_shards()] == [victim]
    assert [r.round for r in store.records()] == [2]
    victim.write_bytes(whole)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(length=st.integers(0, 10**6))
def test_any_truncation_is_detected(store, length):
    victim = shards(store, "tasks")[0]
    whole = victim.read_bytes()
    victim.write_bytes(whole[: length % len(whole)])
    assert [bad.path for bad in store.check_shards()] == [victim]
    assert store.tasks() == []
    victim.write_bytes(whole)


@pytest.mark.parametrize("text", ["{", HARDWARE.to_json().replace("Some CPU", "Same CPU")])
def test_a_damaged_device_description_is_named(store, text):
    path = store.folder / f"hardware-{HARDWARE.hardware_id}.json"
    path.write_text(text)
    with pytest.raises(StoreError, match=path.name):
        store.hardware()


def test_what_fails_in_the_middle_shows_nothing(store, monkeypatch):
    before = sorted(store.folder.iterdir())
    with store.writing(), pytest.raises(ZeroDivisionError), store.transaction():
        store.append_tasks([task_row("t1")])
        store.append_records([record(5, task="t1")])
        raise ZeroDivisionError
    assert sorted(store.folder.iterdir()) == sorted({*before, store.folder / ".lock"})
    with store.writing(), store.transaction():
        store.append_records([record(5)])
        store.append_records([record(6)])
        assert len(store.records()) == 3
    assert [r.round for r in store.records()] == [0, 1, 2, 5, 6]


def test_a_file_that_a_transaction_writes_twice_has_its_last_content(store):
    with store.writing(), store.transaction():
        store.put_file("note", b"first")
        store.put_file("note", b"second")
    assert (store.folder / "note").read_bytes() == b"second"


def test_a_ctrl_c_during_the_renames_of_a_transaction_waits_for_them(store, monkeypatch):
    rename = Path.rename

    def interrupted(path, to):
        signal.raise_signal(signal.SIGINT)
        return rename(path, to)

    monkeypatch.setattr(Path, "rename", interrupted)
    with store.writing(), pytest.raises(KeyboardInterrupt), store.transaction():
        store.append_records([record(5, task="t1")])
        store.append_tasks([task_row("t1")])
    assert [r.round for r in store.records()] == [0, 1, 2, 5]
    assert [row.workload_hash for row in store.tasks()] == [task_row().workload_hash, "t1"]


def test_a_transaction_shows_records_after_their_tasks_and_devices(tmp_path, monkeypatch):
    shown, rename = [], Path.rename
    monkeypatch.setattr(Path, "rename", lambda path, to: shown.append(to.name) or rename(path, to))
    store = RecordStore(tmp_path)
    with store.writing(), store.transaction():
        store.append_records([record(0)])
        store.append_tasks([task_row()])
        store.put_hardware(HARDWARE)
    assert [name.split("-")[0] for name in shown] == ["tasks", "hardware", "records"]


def test_a_folder_without_dataset_is_an_error(tmp_path):
    with pytest.raises(StoreError, match="foretune generate"):
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


@pytest.fixture
def small_disk(tmp_path):
    """File system of 64 kB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "foretune-test", str(folder)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no right to mount a small file system")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_disk_that_fills_up_keeps_every_whole_shard(small_disk):
    store = RecordStore(small_disk / "set")
    with store.writing():
        store.append_tasks([task_row()])
        for number in count():
            try:
                store.append_records([record(number)])
            except StoreError as error:
                assert "No space left" in str(error)
                break
    assert number > 1
    assert [r.round for r in store.records()] == list(range(number))
    assert store.check_shards() == []
    shards(store)[0].unlink()
    with store.writing():
        store.append_records([record(number)])
    assert [r.round for r in store.records()] == list(range(1, number + 1))


WRITER = """
import sys
sys.path.insert(0, {tests!r})
from support.records import record
from foretune.dataset.records.store import RecordStore
store = RecordStore({folder!r})
with store.writing():
    print("ready", flush=True)
    for number in range(100, 100000):
        store.append_records([record(number)])
"""


def test_a_writer_killed_in_the_middle_leaves_whole_shards_and_no_lock(store):
    tests = str(TESTS)
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


HOLDER = """
import sys, time
from foretune.dataset.records.store import RecordStore
with RecordStore(sys.argv[1]).writing():
    print("ready", flush=True)
    time.sleep(600)
"""


def test_two_processes_exclude_each_other_until_one_is_killed(store):
    command = [sys.executable, "-c", HOLDER, str(store.folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout.readline() == b"ready\n"
            with pytest.raises(StoreLockedError, match="another run is writing"), store.writing():
                pass
        finally:
            holder.kill()
    with store.writing():
        store.append_records([record(3)])
    assert len(store.records()) == 4


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path):
    (tmp_path / "file").touch()
    with (
        pytest.raises(StoreError, match="cannot be written"),
        RecordStore(tmp_path / "file" / "set").writing(),
    ):
        pass


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


def test_a_busy_machine_does_not_lower_the_ceilings_of_its_device(tmp_path):
    store = RecordStore(tmp_path)
    store.put_hardware(HARDWARE)
    quiet = store.content_hash()
    store.put_hardware(replace(HARDWARE, peak_gflops=HARDWARE.peak_gflops / 3, details={"load": 0.9}))
    assert store.hardware() == {HARDWARE.hardware_id: HARDWARE}
    assert store.content_hash() == quiet
    store.put_hardware(replace(HARDWARE, bandwidth_gbs=2 * HARDWARE.bandwidth_gbs))
    assert store.hardware()[HARDWARE.hardware_id].bandwidth_gbs == 2 * HARDWARE.bandwidth_gbs
    assert store.content_hash() != quiet


def test_peaks_of_a_busy_machine_are_marked_until_it_was_quiet(tmp_path):
    store = RecordStore(tmp_path)
    busy = replace(HARDWARE, peak_gflops=50.0, details={"peaks_disturbed": True})
    for measured, peak, marked in (
        (busy, 50.0, True),
        (replace(busy, peak_gflops=70.0), 70.0, True),
        (replace(HARDWARE, peak_gflops=60.0), 70.0, False),
        (busy, 70.0, False),
    ):
        store.put_hardware(measured)
        found = store.hardware()[HARDWARE.hardware_id]
        assert (found.peak_gflops, found.details.get("peaks_disturbed", False)) == (peak, marked)
