"""A run whose tasks are all in the database starts no process for them, and accounts for its time."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from foretune.compiler.networks import extract_tasks, load_network, lowered, to_relax
from foretune.compiler.tvm_compat import parse_target
from foretune.dataset.hardware.target_hardware import target_hardware
from foretune.dataset.records.database_lines import RECORD_FILE
from foretune.files import CannotWriteError
from foretune.inference.database.tuning_database import MissingScheduleError, TuningDatabase
from foretune.inference.deploy.trial import NetworkTimings
from foretune.inference.run import memory, network_run
from foretune.inference.run.config import TuneConfig
from foretune.inference.run.memory import MemoryLimitError
from foretune.inference.run.result import TuneResult
from foretune.inference.search.checkpoint_fit import CheckpointFitError
from foretune.inference.search.config import OneShotConfig
from foretune.inference.tune import run
from foretune.inference.workers import workforce
from foretune.models.checkpoints import checkpoint
from foretune.models.checkpoints.checkpoint import CheckpointNotFoundError
from rich.console import Console
from support.disks import FULL, refuse_writing
from support.schedules import add_schedules
from tvm.s_tir import meta_schedule as ms

TARGET = parse_target("llvm")


def config(folder: Path, **changes: Any) -> TuneConfig:
    settings = {
        "network": "torch.nn:Linear",
        "inputs": [[64, 256]],
        "kwargs": {"in_features": 256, "out_features": 256},
        "output": folder / "report",
        "database": folder / "database",
        "checkpoint": None,
        "rivals": [],
        "timing_repeats": 1,
        "untuned_limit_s": 1e-9,
        "search": OneShotConfig("evolutionary", processes=1),
        **changes,
    }
    return TuneConfig(**settings)


@pytest.fixture
def filled(tmp_path: Path) -> TuneConfig:
    """A run whose one task has a schedule and an untuned latency in the database."""
    settings = config(tmp_path)
    database = TuningDatabase(settings.database, TARGET, target_hardware(TARGET, measured=False))
    network = load_network(**settings.network_arguments)
    (task,) = extract_tasks(to_relax(network, TARGET), TARGET, "linear")
    add_schedules(ms.database.JSONDatabase(work_dir=str(database.folder)), [task], TARGET, 1e-4)
    database.notes.note_untuned(task, 1e-3)
    return settings


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of what is started; nothing can be."""
    begun: list[str] = []

    def refuse(name: str) -> Any:
        def start(*arguments: Any, **options: Any) -> None:
            begun.append(name)
            raise RuntimeError(f"{name} started")

        return start

    for name in ("make_executor", "start_searchers"):
        monkeypatch.setattr(workforce, name, refuse(name))
    return begun


def finished(settings: TuneConfig) -> TuneResult:
    return run(settings, Console(quiet=True))


def test_nothing_is_started_and_nothing_measured_where_all_is_known(
    filled: TuneConfig, started: list[str]
) -> None:
    with pytest.raises(RuntimeError, match="make_executor started"):
        finished(filled)  # which does not know yet that nothing is left
    notes = TuningDatabase(filled.database, TARGET, target_hardware(TARGET, measured=False)).notes
    notes.note_nothing_left(filled.task_settings)
    started.clear()
    result = finished(filled)
    assert started == []
    assert result.peak_mb is not None and result.peak_mb > 50
    (task,) = result.tasks
    assert task.from_database
    assert (task.untuned_latency_s, task.tuned_latency_s) == (1e-3, pytest.approx(1e-4))
    assert task.candidates_measured == task.candidates_tried == 0
    assert result.outputs_match


def test_a_run_with_nothing_to_do_loads_no_model_and_converts_once(
    filled: TuneConfig, started: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = TuningDatabase(filled.database, TARGET, target_hardware(TARGET, measured=False)).notes
    settings = replace(filled, checkpoint="cpu", search=OneShotConfig("draft", processes=1))
    notes.note_nothing_left(settings.task_settings)
    loaded, converted = [], []
    monkeypatch.setattr(checkpoint, "build_network", lambda *_: loaded.append(True))
    convert = lowered.to_relax
    monkeypatch.setattr(lowered, "to_relax", lambda *given: converted.append(True) or convert(*given))
    monkeypatch.setenv("XDG_CACHE_HOME", str(settings.database.parent / "cache"))
    monkeypatch.setattr(
        network_run.Trial, "timed", lambda _, tuned, complete: NetworkTimings(results=complete())
    )
    for _ in range(2):
        assert finished(settings).tasks[0].from_database
    assert (loaded, started, converted) == ([], [], [True])
    finished(replace(settings, cache=False))
    assert converted == [True, True]


def test_the_stages_cover_the_run(filled: TuneConfig, started: list[str]) -> None:
    notes = TuningDatabase(filled.database, TARGET, target_hardware(TARGET, measured=False)).notes
    notes.note_nothing_left(filled.task_settings)
    result = finished(filled)
    assert {"start and imports", "network to tasks", "compile", "report"} <= set(result.stage_s)
    assert 0.95 * result.total_s <= sum(result.stage_s.values()) <= result.total_s


@pytest.mark.parametrize("require", [False, True])
@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"checkpoint": "nowhere"}, CheckpointNotFoundError, "no checkpoint 'nowhere'"),
        ({"checkpoint": "cuda"}, CheckpointFitError, "checkpoint=cuda: trained on records of CUDA GPUs"),
        (
            {"search": OneShotConfig({"name": "draft", "checkpoint": "afar"})},
            CheckpointNotFoundError,
            "no checkpoint 'afar'",
        ),
        (
            {"search": OneShotConfig({"name": "dqn", "environment": "afar"})},
            CheckpointNotFoundError,
            "no checkpoint 'afar'",
        ),
    ],
)
def test_a_bad_checkpoint_is_an_error_where_nothing_is_left(
    filled: TuneConfig,
    started: list[str],
    changes: dict[str, Any],
    error: type[Exception],
    message: str,
    require: bool,
) -> None:
    notes = TuningDatabase(filled.database, TARGET, target_hardware(TARGET, measured=False)).notes
    notes.note_nothing_left(filled.task_settings)
    with pytest.raises(error, match=message):
        finished(replace(filled, require_database=require, **changes))
    assert started == []


@pytest.mark.parametrize("changes", [{"retune": True}, {"kwargs": {"in_features": 256, "out_features": 8}}])
def test_what_is_not_known_is_started_for_at_once(
    filled: TuneConfig, started: list[str], tmp_path: Path, changes: dict[str, Any]
) -> None:
    notes = TuningDatabase(filled.database, TARGET, target_hardware(TARGET, measured=False)).notes
    notes.note_nothing_left(filled.task_settings)
    with pytest.raises(RuntimeError, match="make_executor started"):
        finished(config(tmp_path, **changes))


def content(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("decided", ["schedule", "no candidate ran"])
def test_a_read_only_database_is_enough_for_a_run_that_requires_it(
    filled: TuneConfig, started: list[str], monkeypatch: pytest.MonkeyPatch, decided: str
) -> None:
    database = TuningDatabase(filled.database, TARGET, target_hardware(TARGET, measured=False))
    network = load_network(**filled.network_arguments)
    (task,) = extract_tasks(to_relax(network, TARGET), TARGET, "linear")
    if decided != "schedule":
        database.notes.note_left(task, decided)
        (database.folder / RECORD_FILE).unlink()
    with (database.folder / RECORD_FILE).open("a") as file:
        file.write("[0, [[")  # a run was killed
    before = content(filled.database)
    refuse_writing(monkeypatch, filled.database)
    result = finished(replace(filled, require_database=True))
    assert started == [] and content(filled.database) == before
    (found,) = result.tasks
    assert found.reason == ("" if decided == "schedule" else decided)
    assert found.tuned_latency_s == (pytest.approx(1e-4) if decided == "schedule" else None)
    assert found.untuned_latency_s == 1e-3 and result.outputs_match


def test_a_network_without_room_is_refused_before_the_search(
    filled: TuneConfig, started: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = TuningDatabase(filled.database, TARGET, target_hardware(TARGET, measured=False)).notes
    notes.note_nothing_left(filled.task_settings)
    monkeypatch.setattr(memory, "available_bytes", lambda: 0)
    monkeypatch.setattr(memory, "resident_bytes", lambda: 10**6)
    with pytest.raises(MemoryLimitError, match=r"network=Linear: needs about .* GB of memory"):
        finished(filled)
    assert started == []


@pytest.mark.parametrize("field", ["output", "database", "export"])
def test_a_path_that_cannot_be_written_is_an_error_before_the_search(
    filled: TuneConfig, started: list[str], tmp_path: Path, field: str
) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "below"
    with pytest.raises(CannotWriteError, match=rf"^{field}={path}: cannot be written \(Not a directory\)"):
        finished(replace(filled, **{field: path}))
    assert started == []


def test_a_disk_that_fills_up_before_the_report_keeps_the_earlier_report_and_the_schedules(
    filled: TuneConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled.folder.mkdir(parents=True)
    for name in ("report.json", "report.html"):
        (filled.folder / name).write_text("an earlier report")
    before, schedules = content(filled.folder), content(filled.database)
    report = network_run.reported

    def full(*arguments: Any) -> TuneResult:
        refuse_writing(monkeypatch, filled.folder, FULL)
        return report(*arguments)

    monkeypatch.setattr(network_run, "reported", full)
    kept = f"what was measured is kept in {filled.database}"
    with pytest.raises(
        CannotWriteError, match=rf"report\.json: cannot be written \(No space left.*; {kept}$"
    ):
        finished(replace(filled, require_database=True))
    assert content(filled.folder) == before and content(filled.database) == schedules


def test_a_run_that_requires_what_no_run_has_decided_leaves_no_trace(
    filled: TuneConfig, started: list[str], tmp_path: Path
) -> None:
    there = tmp_path / "elsewhere"
    with pytest.raises(MissingScheduleError, match=r"require_database=true: task .* has no schedule in"):
        finished(replace(filled, require_database=True, database=there))
    assert started == [] and not there.exists()


def test_the_device_goes_by_the_same_name_measured_or_not() -> None:
    unmeasured, measured = (target_hardware(TARGET, measured) for measured in (False, True))
    assert unmeasured.hardware_id == measured.hardware_id
    assert math.isnan(unmeasured.peak_gflops) and measured.peak_gflops > 0
