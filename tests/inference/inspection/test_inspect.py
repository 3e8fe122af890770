"""`foretune inspect` on a small network: states, predictions, files."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from foretune.compiler.networks import extract_tasks, load_network, to_relax
from foretune.compiler.task import Task
from foretune.compiler.tvm_compat import parse_target
from foretune.dataset.hardware.target_hardware import target_hardware
from foretune.inference.database.tuning_database import TuningDatabase
from foretune.inference.database.tuning_notes import RunNote
from foretune.inference.inspect import InspectConfig, InspectConfigError, run
from foretune.inference.inspection.content import NetworkOutlook
from foretune.inference.search.config import OneShotConfig
from foretune.models.scaling.target import TargetError
from rich.console import Console
from support.schedules import add_schedules
from tvm.s_tir import meta_schedule as ms

TARGET = parse_target("llvm")
NETWORK: dict[str, Any] = {"network": "support.networks:Residual", "inputs": [[1, 8, 6, 6]]}


def inspected(folder: Path, **changes: Any) -> tuple[NetworkOutlook, str]:
    """The outlook, and what was printed."""
    console = Console(width=160, file=io.StringIO())
    outlook = run(InspectConfig(**{**NETWORK, "database": folder, "programs": 2, **changes}), console)
    return outlook, console.file.getvalue()  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def tasks() -> list[Task]:
    network = load_network(NETWORK["network"], inputs=NETWORK["inputs"])
    return extract_tasks(to_relax(network, TARGET), TARGET, network.name)


@pytest.fixture
def folder(tmp_path: Path, tasks: list[Task]) -> Path:
    """A database with one finished task, one unfinished, and one that ended without a schedule."""
    database = TuningDatabase(tmp_path, TARGET, target_hardware(TARGET))
    searched = [task for task in tasks if task.operator != "elementwise"]
    add_schedules(ms.database.JSONDatabase(work_dir=str(database.folder)), searched[:2], TARGET, 2e-3)
    database.note_rounds(searched[1], 2, 6)
    database.notes.note_untuned(searched[0], 5e-3)
    database.notes.note_ended(tasks[-1], "untuned is faster")
    return tmp_path


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_tasks_say_what_the_database_has_of_them_and_nothing_is_written(
    folder: Path, tasks: list[Task]
) -> None:
    before = contents(folder)
    outlook, text = inspected(folder)
    assert contents(folder) == before
    assert [task.name for task in outlook.tasks] == [task.name for task in tasks]
    assert sum(task.share_of_operations for task in outlook.tasks) == pytest.approx(1.0)
    states = [task.state for task in outlook.tasks]
    assert states.count("tuned") == states.count("2 of 6 rounds") == states.count("untuned is faster") == 1
    (tuned,) = [task for task in outlook.tasks if task.state == "tuned"]
    assert (tuned.tuned_latency_s, tuned.untuned_latency_s, tuned.due) == (pytest.approx(2e-3), 5e-3, False)
    assert {task.due for task in outlook.tasks if task.state == "new"} == {True}
    assert not any(task.due for task in outlook.tasks if task.state == "untuned is faster")
    assert f"2 of {len(tasks)} tasks have a schedule in {folder}" in text
    assert f"{outlook.due} tasks to tune: about" in text


def test_latencies_are_predicted_for_tasks_with_decisions(folder: Path) -> None:
    outlook, text = inspected(folder)
    for task in outlook.tasks:
        known = task.predicted_latency_s
        assert (known is None) == (task.operator == "elementwise")
        assert known is None or 1e-9 < known < 1.0
    assert "drawn at random, by cpu-latency" in text
    again, _ = inspected(folder)
    assert again == outlook  # the seed fixes the programs


def test_a_network_without_a_database_and_without_a_model_is_all_new(tmp_path: Path) -> None:
    outlook, text = inspected(tmp_path / "none", checkpoint=None)
    assert {task.state for task in outlook.tasks} == {"new"}
    assert outlook.due == len(outlook.tasks)
    assert {task.predicted_latency_s for task in outlook.tasks} == {None}
    assert not (tmp_path / "none").exists()
    assert "no database yet" in text and "Predicted" in text and "drawn at random" not in text


def test_earlier_runs_are_the_basis_of_the_estimate(folder: Path) -> None:
    database = TuningDatabase(folder, TARGET, target_hardware(TARGET, measured=False))
    database.notes.note_run(OneShotConfig(seed=5).fitted(TARGET), RunNote(4, 40.0))
    outlook, text = inspected(folder, checkpoint=None)
    assert outlook.estimate is not None
    assert outlook.estimate.middle_s == pytest.approx(10.0 * outlook.due)
    assert "1 earlier run into this database: 10.0 s a task" in text


def test_the_outlook_is_written_where_asked(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "new" / "outlook.json"
    outlook, text = inspected(folder, checkpoint=None, output=path)
    written = json.loads(path.read_text())
    assert [task["name"] for task in written["tasks"]] == [task.name for task in outlook.tasks]
    assert written["estimate"]["least_s"] < written["estimate"]["most_s"]
    assert f"wrote {path}" in text


def test_a_model_of_scores_gives_no_seconds(folder: Path) -> None:
    with pytest.raises(TargetError, match="gives no seconds"):
        inspected(folder, checkpoint="cpu")


def test_at_least_one_program_is_drawn(folder: Path) -> None:
    with pytest.raises(InspectConfigError, match="programs=0"):
        inspected(folder, programs=0)


def test_two_shapes_are_one_operator_set(folder: Path) -> None:
    outlook, _ = inspected(folder, checkpoint=None, inputs=[[[1, 8, 6, 6]], [[2, 8, 6, 6]]])
    assert outlook.network == "Residual-1x8x6x6, Residual-2x8x6x6"
    assert len({task.workload_hash for task in outlook.tasks}) == len(outlook.tasks)
    one, _ = inspected(folder, checkpoint=None)
    assert {task.workload_hash for task in one.tasks} < {task.workload_hash for task in outlook.tasks}
