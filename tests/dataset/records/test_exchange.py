"""Tests of MetaSchedule databases: reading those of stock TVM, and writing ones that stock TVM uses."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import tvm
from foretune.compiler.operators import Dense, to_task
from foretune.compiler.replay import candidate_trace_json, instantiate, replay
from foretune.compiler.tvm_compat import (
    design_spaces,
    make_tune_context,
    parse_target,
    target_to_json,
    workload_hash,
)
from foretune.dataset.hardware import UnfitHardwareError, UnknownHardwareError
from foretune.dataset.records import exchange
from foretune.dataset.records.database_export import export_database
from foretune.dataset.records.exchange import (
    RECORD_FILE,
    WORKLOAD_FILE,
    DatabaseError,
    find_hardware,
    import_database,
    read_database,
    read_traces,
)
from foretune.dataset.records.schema import FailureKind
from foretune.dataset.records.store import RecordStore, StoreError
from foretune.dataset.records.verification import problems
from support.records import HARDWARE
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.schedule import Trace

TARGET = parse_target({"kind": "llvm", "num-cores": 2})
TASKS = [
    to_task(Dense(rows=16, in_features=64, out_features=64, epilogue="bias")),
    to_task(Dense(rows=8, in_features=32, out_features=32)),
]


@pytest.fixture(scope="module")
def candidates():
    """Two programs of each task."""
    drawn = []
    for task in TASKS:
        context = make_tune_context(task.mod, TARGET, seed=0)
        space = Trace(design_spaces(context, task.name)[0].trace.insts, {})
        drawn.append([instantiate(context, space, seed) for seed in (1, 2)])
    return drawn


@pytest.fixture
def database(tmp_path, candidates):
    """Database as stock TVM writes it: two measured programs of one task, a failed one of another."""
    folder = tmp_path / "stock"
    folder.mkdir()
    stock = ms.database.JSONDatabase(work_dir=str(folder))
    for task, program, run_secs in ((0, 0, [3e-3, 2e-3]), (0, 1, [1e-3]), (1, 0, [1e10])):
        candidate = candidates[task][program]
        stock.commit_tuning_record(
            ms.database.TuningRecord(
                candidate.sch.trace,
                stock.commit_workload(TASKS[task].mod),
                run_secs,
                TARGET,
                candidate.args_info,
            )
        )
    return folder


def test_a_stock_database_is_read(database, candidates):
    first, second, failed = read_database(database)
    assert first.run_secs == (3e-3, 2e-3)
    assert first.trace == candidate_trace_json(candidates[0][0])
    assert first.target == target_to_json(TARGET)
    assert workload_hash(first.mod) == TASKS[0].workload_hash
    assert second.run_secs == (1e-3,)
    assert failed.run_secs == ()
    assert workload_hash(failed.mod) == TASKS[1].workload_hash


def test_traces_that_are_read_alone_replay_to_the_same_programs(database):
    for (mod, trace, run_secs), record in zip(read_traces(database), read_database(database), strict=True):
        assert "EnterPostproc" not in trace
        context = make_tune_context(mod, TARGET, seed=0)
        assert candidate_trace_json(replay(context, trace)) == record.trace
        assert run_secs == record.run_secs


def test_a_broken_line_is_named_and_the_rest_is_read(database):
    lines = (database / RECORD_FILE).read_text().splitlines()
    _, content = json.loads(lines[1])
    broken = [lines[0], lines[1][: len(lines[1]) // 2], "[7]", json.dumps([9, content]), lines[2]]
    (database / RECORD_FILE).write_text("\n".join(broken))
    told = []
    assert [record.run_secs for record in read_database(database, told.append)] == [(3e-3, 2e-3), ()]
    assert [run_secs for _, _, run_secs in read_traces(database)] == [(3e-3, 2e-3), ()]
    for number, text in zip((2, 3, 4), told, strict=True):
        assert f"{RECORD_FILE}, line {number}: " in text
    assert "line 10 of database_workload.json" in told[2]


@pytest.mark.parametrize("decision", [[-1, 1], [999, 1], [0, [0, 64]]])
def test_decisions_that_crash_tvm_are_named_and_not_tried(database, decision):
    index, content = json.loads((database / RECORD_FILE).read_text().splitlines()[0])
    content[0][1].append(decision)
    with (database / RECORD_FILE).open("a") as file:
        file.write(json.dumps([index, content]) + "\n")
    told = []
    assert len(read_database(database, told.append)) == len(read_traces(database)) == 3
    assert len(told) == 1 and "line 4: " in told[0]


def test_records_of_a_broken_task_are_left_out(database):
    lines = (database / WORKLOAD_FILE).read_text().splitlines()
    (database / WORKLOAD_FILE).write_text("\n".join([lines[0][:-50], lines[1]]))
    told = []
    (kept,) = read_database(database, told.append)
    assert workload_hash(kept.mod) == TASKS[1].workload_hash
    assert len(told) == 3


def test_a_folder_without_database_is_an_error(tmp_path):
    with pytest.raises(DatabaseError, match=WORKLOAD_FILE):
        read_database(tmp_path)


@pytest.fixture
def device(tmp_path):
    """File of a device's description."""
    path = tmp_path / "device.json"
    path.write_text(HARDWARE.to_json())
    return str(path)


@pytest.fixture
def imported(tmp_path, database, device):
    """Dataset with the two measured programs of the stock database."""
    store = RecordStore(tmp_path / "set")
    import_database(database, store, hardware=device)
    return store


def test_an_import_keeps_tasks_programs_and_repeats(tmp_path, database, device, candidates):
    store, told = RecordStore(tmp_path / "set"), []
    counts = import_database(database, store, hardware=device, warn=told.append)
    assert (counts.added, counts.known, counts.left_out) == (2, 0, 1)
    assert [TASKS[1].workload_hash in text and "failed" in text for text in told] == [True]
    (row,) = store.tasks()
    assert (row.workload_hash, row.operator) == (TASKS[0].workload_hash, "dense")
    assert (row.source, row.flops) == ("database:stock", TASKS[0].flops)
    assert json.loads(row.settings)["in_features"] == 64
    first, second = store.records()
    assert (first.trace, first.run_secs) == (candidate_trace_json(candidates[0][0]), (3e-3, 2e-3))
    assert (second.trace, second.run_secs) == (candidate_trace_json(candidates[0][1]), (1e-3,))
    assert (first.sampler, first.target) == ("import", target_to_json(TARGET))
    assert store.hardware() == {first.hardware_id: HARDWARE}

    again = import_database(database, store, hardware=device, warn=told.append)
    assert (again.added, again.known, again.left_out) == (0, 2, 1)
    assert len(store.records()) == 2


def test_a_program_of_another_task_is_named_and_left_out(tmp_path, database, device):
    _, content = json.loads((database / RECORD_FILE).read_text().splitlines()[0])
    (instructions, _), *_ = content
    for kind, _, attributes, _ in instructions:
        if kind == "GetSBlock":
            attributes[0] = "no_block_of_the_task"
    with (database / RECORD_FILE).open("a") as file:
        file.write(json.dumps([0, content]) + "\n")
    told = []
    counts = import_database(database, RecordStore(tmp_path / "set"), hardware=device, warn=told.append)
    assert counts.added == 2
    assert any("line 4: its trace does not apply" in text for text in told)


def test_a_program_that_postprocessing_refuses_is_named_and_left_out(
    tmp_path, database, device, monkeypatch, candidates
):
    refused = candidate_trace_json(candidates[0][0])
    monkeypatch.setattr(
        exchange, "replay", lambda context, trace: None if trace == refused else replay(context, trace)
    )
    told = []
    counts = import_database(database, RecordStore(tmp_path / "set"), hardware=device, warn=told.append)
    assert (counts.added, counts.left_out) == (1, 2)
    assert any(TASKS[0].workload_hash in text and "does not replay" in text for text in told)


def test_records_without_target_take_the_one_that_is_named(tmp_path, database, device):
    lines = [json.loads(line) for line in (database / RECORD_FILE).read_text().splitlines()]
    for _, content in lines:
        content[2] = None
    (database / RECORD_FILE).write_text("".join(json.dumps(line) + "\n" for line in lines))
    store, told = RecordStore(tmp_path / "set"), []
    assert import_database(database, store, hardware=device, warn=told.append).left_out == 3
    assert any("target=" in text for text in told)
    import_database(database, store, hardware=device, target=target_to_json(TARGET))
    assert [record.target for record in store.records()] == [target_to_json(TARGET)] * 2


def test_records_of_two_targets_on_one_device_are_imported(tmp_path, database, device):
    first, *rest = (database / RECORD_FILE).read_text().splitlines(keepends=True)
    (database / RECORD_FILE).write_text("".join([first.replace('"num-cores":2', '"num-cores":1'), *rest]))
    store = RecordStore(tmp_path / "set")
    assert import_database(database, store, hardware=device).added == 2
    assert len({record.target for record in store.records()}) == 2
    assert store.hardware() == {HARDWARE.hardware_id: HARDWARE}


def test_an_import_completes_one_that_left_out_a_task(imported, database, device):
    tasks = imported.tasks()
    for path in imported.folder.glob("tasks-*.parquet"):
        path.unlink()
    assert import_database(database, imported, hardware=device).known == 2
    assert imported.tasks() == tasks and len(imported.records()) == 2


def test_an_import_that_fails_leaves_the_dataset_as_it_was(imported, database, device, monkeypatch):
    def full(_):
        raise StoreError("disk full")

    before = sorted(imported.folder.iterdir())
    (database / RECORD_FILE).write_text(
        (database / RECORD_FILE).read_text().replace('"num-cores":2', '"num-cores":1')
    )
    monkeypatch.setattr(imported, "put_hardware", full)
    with pytest.raises(StoreError):
        import_database(database, imported, hardware=device)
    assert sorted(imported.folder.iterdir()) == before


def test_a_device_must_run_the_target(device, tmp_path):
    assert find_hardware(device, TARGET) == HARDWARE
    assert find_hardware("v100", parse_target("nvidia/nvidia-v100")).kind == "cuda"
    with pytest.raises(UnfitHardwareError, match="cannot run programs"):
        find_hardware("v100", TARGET)
    with pytest.raises(UnknownHardwareError):
        find_hardware("v1000", TARGET)
    assert find_hardware("v100", parse_target("vulkan")).kind == "cuda"
    (tmp_path / "empty.json").write_text("{}")
    with pytest.raises(UnfitHardwareError, match=r"empty\.json"):
        find_hardware(str(tmp_path / "empty.json"), TARGET)


def test_a_description_that_may_not_be_read_is_named(device, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_text", refuse)
    with pytest.raises(UnfitHardwareError, match="Permission denied"):
        find_hardware(device, TARGET)


def test_verification_replays_records(imported):
    assert list(problems(imported, replays=9)) == []
    other = replace(imported.tasks()[0], workload_hash="0" * 16)
    first, second = imported.records()
    with imported.writing():
        imported.append_tasks([other])
        imported.append_records([replace(first, workload_hash=other.workload_hash)])
        imported.append_records([replace(second, trace="[[],[[7,1]]]")])
    told = "\n".join(problems(imported, replays=9))
    assert f"task {'0' * 16}: its module has the hash {TASKS[0].workload_hash}" in told
    assert "its trace does not replay" in told


def test_what_is_exported_is_imported_the_same(tmp_path, imported):
    (exported,) = export_database(imported, tmp_path / "out")
    assert (exported.tasks, exported.records) == (1, 2)
    assert (exported.target, exported.hardware_id) == (target_to_json(TARGET), HARDWARE.hardware_id)
    again = RecordStore(tmp_path / "again")
    device = next(imported.folder.glob("hardware-*.json"))
    import_database(exported.folder, again, hardware=str(device))
    held = ("workload_hash", "trace", "run_secs", "target", "hardware_id", "key")
    assert sorted(map(str, again.columns(*held).to_pylist())) == sorted(
        map(str, imported.columns(*held).to_pylist())
    )
    assert [row.tir for row in again.tasks()] == [row.tir for row in imported.tasks()]
    assert again.hardware() == imported.hardware()


def test_stock_tvm_compiles_from_an_export(tmp_path, imported, candidates):
    (exported,) = export_database(imported, tmp_path / "out")
    stock = ms.database.JSONDatabase(work_dir=str(exported.folder))
    schedule = stock.query_schedule(TASKS[0].mod, TARGET, "main")
    assert workload_hash(schedule.mod) == workload_hash(candidates[0][1].sch.mod)  # the faster one
    assert tvm.compile(schedule.mod, target=TARGET) is not None


def test_an_export_takes_the_fastest_of_the_chosen_tasks(tmp_path, imported):
    (exported,) = export_database(imported, tmp_path / "out", tasks=[TASKS[0].workload_hash], top=1)
    assert [record.run_secs for record in read_database(exported.folder)] == [(1e-3,)]
    with pytest.raises(DatabaseError, match="exists; export into another"):
        export_database(imported, tmp_path / "out")
    with pytest.raises(DatabaseError, match="tasks=nothing"):
        export_database(imported, tmp_path / "other", tasks=["nothing"])


def test_an_export_has_one_folder_a_target_and_no_failures(tmp_path, imported):
    first, second = imported.records()
    other = target_to_json(parse_target({"kind": "llvm", "num-cores": 1}))
    with imported.writing():
        imported.append_records(
            [
                replace(first, target=other),
                replace(first, hardware_id="b"),
                replace(first, hardware_id="c", run_secs=(), failure=FailureKind.RUN_ERROR),
                replace(second, hardware_id="d", simulated=True),
            ]
        )
    exported = export_database(imported, tmp_path / "out")
    assert sorted(folder.records for folder in exported) == [1, 1, 2]
    assert len({folder.folder for folder in exported}) == 3
    assert {folder.target for folder in exported if folder.hardware_id == HARDWARE.hardware_id} == {
        other,
        target_to_json(TARGET),
    }
