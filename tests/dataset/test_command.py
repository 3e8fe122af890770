"""Tests of `foretune dataset`: output and exit status, merging and verification."""

from concurrent.futures import ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from foretune.cli import main
from foretune.dataset.features.dataset import EmptyDatasetError, FeatureProcessError, load_labelled_features
from foretune.dataset.features.recorded_spaces import load_recorded_spaces
from foretune.dataset.hardware import Hardware
from foretune.dataset.records.merge import MergeCounts, merge_datasets
from foretune.dataset.records.program_pool import ProgramPool
from foretune.dataset.records.schema import RECORD_SCHEMA, FailureKind
from foretune.dataset.records.store import RecordStore, StoreError, StoreLockedError
from foretune.dataset.records.verification import problems
from support.paths import ROOT
from support.records import HARDWARE, record, task_row

DATA = ROOT / "data"
OTHER = Hardware("Other CPU", "cpu", 4, 3.0, 512, 32768, 524288, 33554432, 300.0, 40.0)


def make_dataset(folder, tasks, records, devices=(HARDWARE,)):
    store = RecordStore(folder)
    with store.writing():
        for hardware in devices:
            store.put_hardware(hardware)
        store.append_tasks(tasks)
        store.append_records(records)
    return store


@pytest.fixture
def first(tmp_path):
    return make_dataset(tmp_path / "a", [task_row()], [record(0), record(1, (), FailureKind.RUN_TIMEOUT)])


@pytest.fixture
def second(tmp_path):
    """Dataset that shares the task and one program with `first`, with another latency for the program."""
    records = [
        record(0, (9.0,)),
        record(2),
        record(3, task="t1"),
        replace(record(4), hardware_id=OTHER.hardware_id),
    ]
    return make_dataset(tmp_path / "b", [task_row(), task_row("t1")], records, [HARDWARE, OTHER])


def flip(store, kind):
    path = next(store.folder.glob(f"{kind}-*.parquet"))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    return path


def status_of(*arguments):
    """Exit status of the command."""
    try:
        main(["dataset", *map(str, arguments)])
    except SystemExit as exit:
        return exit.code
    return 0


def test_a_merge_is_the_union_with_equal_keys_once(tmp_path, first, second):
    target = RecordStore(tmp_path / "c")
    assert merge_datasets([first, second], target) == MergeCounts(tasks=2, records=5, devices=2, known=1)
    assert {row.name for row in target.tasks()} == {"conv2d_t0", "conv2d_t1"}
    assert target.hardware() == {HARDWARE.hardware_id: HARDWARE, OTHER.hardware_id: OTHER}
    merged = {r.key: r for r in target.records()}
    assert merged == {r.key: r for r in [*second.records(), *first.records()]}
    assert merged[record(0).key].run_secs == record(0).run_secs
    assert list(problems(target)) == []


def test_a_merge_into_a_dataset_adds_what_it_has_not(first, second):
    before = second.content_hash()
    assert merge_datasets([second], first) == MergeCounts(tasks=1, records=3, devices=1, known=1)
    assert merge_datasets([second], first) == MergeCounts(known=4)
    assert len(first.records()) == 5
    assert second.content_hash() == before


def test_a_merge_into_itself_makes_it_compact(first):
    with first.writing():
        first.append_records([record(5)])
        first.append_records([record(0)])
    assert list(problems(first)) != []
    assert merge_datasets([first], first).records == 0
    assert len(list(first.folder.glob("records-*"))) == 1
    assert list(problems(first)) == []


def test_a_merge_that_fails_leaves_the_dataset_as_it_was(first, second, monkeypatch):
    def full(_):
        raise StoreError("disk full")

    before = sorted(path.name for path in first.folder.iterdir())
    monkeypatch.setattr(first, "put_hardware", full)
    with pytest.raises(StoreError):
        merge_datasets([second], first)
    assert sorted(path.name for path in first.folder.iterdir()) == before


def test_a_merge_refuses_damaged_shards_or_goes_on_without(first, second):
    bad, own = flip(second, "records"), flip(first, "records")
    with pytest.raises(StoreError, match="skip_damaged=true"):
        merge_datasets([second], first)
    assert own.exists()
    counts = merge_datasets([second], first, skip_damaged=True)
    assert (counts.tasks, counts.records) == (1, 0)
    assert bad.exists()
    assert (first.folder / "set-aside" / own.name).exists()


def test_a_merge_waits_for_nobody(first, second):
    with first.writing(), pytest.raises(StoreLockedError):
        merge_datasets([second], RecordStore(first.folder))


def test_a_whole_dataset_verifies(first, capsys):
    assert status_of("verify", first.folder) == 0
    assert "1 task and 2 records; all is well" in capsys.readouterr().out


def test_verification_names_every_kind_of_problem(tmp_path, second):
    stray = [replace(record(7), workload_hash="t9"), replace(record(8), hardware_id="no-such-device")]
    with second.writing():
        second.append_records([record(2), *stray, record(9, (0.0,)), record(10, (float("nan"), 1.0))])
    told = "\n".join(problems(second))
    assert "task t9: has 1 record" in told
    assert "device no-such-device: has 1 record" in told
    assert "2 records have a latency that is not finite and positive" in told
    assert "1 record is a duplicate" in told
    assert told.count("\n") == 3


def test_verification_names_records_that_are_neither_valid_nor_failed(first):
    rows = pq.read_table(next(first.folder.glob("records-*.parquet"))).to_pylist()
    unclear = [rows[0] | {"failure": "run_error", "trace": "x"}, rows[1] | {"failure": None, "trace": "y"}]

    with first.writing():
        first.append_columns(pa.Table.from_pylist(unclear, schema=RECORD_SCHEMA))
    (told,) = problems(first)
    assert told.startswith("2 records have both latencies and a failure, or neither")


@pytest.mark.parametrize(
    "folder", sorted(path for path in DATA.iterdir() if path.is_dir()), ids=lambda p: p.name
)
def test_shipped_datasets_verify(folder):
    assert list(problems(RecordStore(folder))) == []


@pytest.mark.parametrize("kind", ["tasks", "records"])
def test_verification_names_a_damaged_shard(first, kind, capsys):
    path = flip(first, kind)
    assert status_of("verify", first.folder) == 1
    assert path.name in capsys.readouterr().out


def test_verification_replays_no_negative_number_of_records(first, capsys):
    assert status_of("verify", first.folder, "replay=-1") == 2
    assert "replay=-1: must be at least 0" in capsys.readouterr().err


def test_verification_names_a_damaged_device(first, capsys):
    path = next(first.folder.glob("hardware-*.json"))
    path.write_text("{")
    assert status_of("verify", first.folder) == 1
    assert path.name in capsys.readouterr().out


def test_inspect_counts_what_is_there(second, capsys):
    assert status_of("inspect", second.folder) == 0
    told = capsys.readouterr().out
    for part in ("Tasks", "Records", "conv2d", "exploration/random", "Some CPU", "Other CPU"):
        assert part in told
    assert status_of("inspect", second.folder, "tasks=true") == 0
    assert "conv2d_t1" in capsys.readouterr().out


def test_inspect_works_without_records_and_without_failures(tmp_path, capsys):
    make_dataset(tmp_path / "set", [task_row()], [])
    assert status_of("inspect", tmp_path / "set") == 0
    assert "conv2d" in capsys.readouterr().out


def test_simulated_records_are_told_and_not_trained_on(tmp_path, capsys):
    simulated = replace(record(0), simulated=True)
    make_dataset(tmp_path / "set", [task_row()], [simulated])
    with pytest.raises(EmptyDatasetError):
        load_labelled_features(tmp_path / "set", cache=tmp_path)
    assert "leaving out 1 of 1 record, as simulated" in capsys.readouterr().out


@pytest.mark.parametrize(
    "load",
    [
        lambda folder: load_labelled_features(folder, cache=folder),
        lambda folder: load_recorded_spaces([folder], least=1),
        ProgramPool,
    ],
)
def test_a_device_without_a_description_is_named(first, load):
    name = f"hardware-{HARDWARE.hardware_id}.json"
    (first.folder / name).unlink()
    with pytest.raises(StoreError, match=f"{name}: is missing.*merge"):
        load(first.folder)


def test_features_start_no_more_processes_than_tasks_and_name_their_death(first, tmp_path, monkeypatch):
    started = []

    class Dying(ThreadPoolExecutor):
        def __init__(self, processes, *, without):
            super().__init__(processes)
            started.append(processes)

        def map(self, *arguments):
            raise BrokenProcessPool

    monkeypatch.setattr("foretune.dataset.features.dataset.available_cores", lambda: 4)
    monkeypatch.setattr("foretune.dataset.features.dataset.process_pool", Dying)
    (tmp_path / "file").touch()
    with pytest.raises(FeatureProcessError, match=r"died.*goes on from what is in .*file/cache"):
        load_labelled_features(first.folder, cache=tmp_path / "file" / "cache")  # which cannot be made
    assert started == [1]


def test_records_without_a_task_are_told_and_not_trained_on(tmp_path, capsys):
    make_dataset(tmp_path / "set", [task_row()], [record(0, task="t8"), record(1, task="t9")])
    with pytest.raises(EmptyDatasetError):
        load_labelled_features(tmp_path / "set", cache=tmp_path)
    assert "leaving out 2 of 2 records, whose tasks it does not have" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["tasks", "records"])
def test_a_damaged_dataset_is_not_trained_on(first, kind, tmp_path):
    path = flip(first, kind)
    with pytest.raises(StoreError, match=f"{path.name}: damaged.*skip_damaged=true"):
        load_labelled_features(first.folder, cache=tmp_path)
    assert status_of("merge", first.folder, f"into={first.folder}", "skip_damaged=true") == 0
    assert (first.folder / "set-aside" / path.name).exists()
    assert first.check_shards() == []


@pytest.mark.parametrize("command", ["inspect", "verify", "datasheet"])
def test_a_folder_without_dataset_is_an_error(tmp_path, command, capsys):
    assert status_of(command, tmp_path) == 2
    assert "has no dataset" in capsys.readouterr().err


def test_the_command_merges(tmp_path, first, second, capsys):
    assert status_of("merge", first.folder, second.folder, f"into={tmp_path / 'c'}") == 0
    assert "5 records, 2 tasks and 2 devices added; 1 record was known" in " ".join(
        capsys.readouterr().out.split()
    )
    flip(first, "records")
    assert status_of("merge", f"dataset=[{first.folder}]", f"into={tmp_path / 'c'}") == 2
    assert "skip_damaged=true" in capsys.readouterr().err


def test_the_command_names_what_cannot_be_imported_or_exported(tmp_path, first, capsys):
    assert status_of("import", tmp_path, f"into={tmp_path / 'c'}") == 2
    assert "database_workload.json" in capsys.readouterr().err
    assert not (tmp_path / "c").exists()
    assert status_of("export", first.folder, f"into={tmp_path / 'd'}", "tasks=[nothing]") == 2
    assert "inspect tasks=true" in capsys.readouterr().err
    assert status_of("export", first.folder, f"into={tmp_path / 'd'}", "top=0") == 2
    assert "at least 1" in capsys.readouterr().err


def test_hardware_prints_what_executors_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of("hardware", "Tesla V100") == 0
    described = Hardware.from_json(capsys.readouterr().out)
    assert (described.kind, described.cores, described.vector_bits) == ("cuda", 80, 1024)


def test_unknown_hardware_is_named_with_those_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of("hardware", "gtx9999") == 2
    assert "hardware='gtx9999'" in (text := capsys.readouterr().err) and "v100" in text
