"""The tuning database: measured schedules of one target on one device, in MetaSchedule's own format.

MetaSchedule's database does not look at the target, so each target and device has a folder of its own. Stock
TVM compiles from it: `with target, ms.database.JSONDatabase(work_dir=folder): ...`. A file of foretune's in
it tells how far the search of each task has come, so that a run which was stopped is gone on with.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from ..dataset.exchange import RECORD_FILE, WORKLOAD_FILE, database_folder_name
from ..dataset.hardware import Hardware
from ..dataset.replay import trace_to_json
from ..dataset.task import Task
from ..dataset.tvm_compat import target_to_json
from .validation import Validation

ROUNDS_FILE = "foretune_rounds.json"
"""One line of JSON whenever a task has come further: `workload`, `rounds` that it has had, `of` how many."""


class TuningDatabase:
    """Schedules of tasks on one target and device."""

    def __init__(self, root: Path, target: Target, hardware: Hardware) -> None:
        """Opens or makes the folder of this target and device under `root`."""
        self.folder = root / database_folder_name(target_to_json(target), hardware.hardware_id)
        self.database, self.dropped_lines = opened_database(self.folder, ROUNDS_FILE)
        self._rounds = _read_rounds(self.folder / ROUNDS_FILE)
        self._target = target

    def best_latency_s(self, task: Task) -> float | None:
        """Latency in seconds of the best schedule of a task, None where it has none."""
        record = self.database.query_tuning_record(task.mod, self._target, "main")
        return None if record is None else min(float(seconds) for seconds in record.run_secs)

    def latencies_s(self, task: Task) -> dict[str, float]:
        """Latency in seconds of every schedule of a task, by its trace as searches know it."""
        workload = self.database.commit_workload(task.mod)
        return {
            trace_to_json(record.trace): min(float(seconds) for seconds in record.run_secs)
            for record in self.database.get_top_k(workload, len(self.database))
        }

    def rounds_of_unfinished(self, task: Task) -> int | None:
        """How many rounds a task has had whose search was stopped before its last; None for any other."""
        rounds, of = self._rounds.get(task.workload_hash, (0, 0))
        return rounds if rounds < of else None

    def note_rounds(self, task: Task, rounds: int, of: int) -> None:
        """Notes that a task has had so many rounds of those that it is to get."""
        if self._rounds.get(task.workload_hash) == (rounds, of):
            return
        self._rounds[task.workload_hash] = rounds, of
        line = json.dumps({"workload": task.workload_hash, "rounds": rounds, "of": of})
        with (self.folder / ROUNDS_FILE).open("a") as file:
            file.write(line + "\n")

    def commit(self, task: Task, validations: Sequence[Validation]) -> None:
        """Adds every candidate that ran."""
        ran = [validation for validation in validations if math.isfinite(validation.latency_s)]
        # One value: MetaSchedule ranks by the mean, and ours is the shortest of the repeats.
        write_records(self.database, self._target, task, [(v.proposal.record, [v.latency_s]) for v in ran])


def opened_database(folder: Path, notes: str) -> tuple[ms.database.JSONDatabase, int]:
    """Makes the folder of a database, or mends what a kill left of it and of the file `notes` beside it.

    Returns the database and the number of broken lines that were dropped.
    """
    folder.mkdir(parents=True, exist_ok=True)
    dropped = sum(_drop_broken_last_line(folder / name) for name in (WORKLOAD_FILE, RECORD_FILE, notes))
    return ms.database.JSONDatabase(work_dir=str(folder), module_equality="structural"), dropped


def write_records(
    database: ms.database.Database,
    target: Target,
    task: Task,
    programs: Sequence[tuple[str, list[float] | None]],
) -> None:
    """Adds programs of a task by their records and latencies in seconds, None for one not measured."""
    workload = database.commit_workload(task.mod)
    described = json.loads(target_to_json(target))
    arguments = [
        argument.as_json() for argument in ms.arg_info.ArgInfo.from_entry_func(task.mod, remove_preproc=True)
    ]
    for record, run_secs in programs:
        content = [json.loads(record), run_secs, described, arguments]
        database.commit_tuning_record(ms.database.TuningRecord.from_json(content, workload))


def _read_rounds(path: Path) -> dict[str, tuple[int, int]]:
    """Rounds had and to be had by workload; the last line of each counts."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {line["workload"]: (line["rounds"], line["of"]) for line in map(json.loads, lines)}


def _drop_broken_last_line(path: Path) -> int:
    """Cuts off a last line that a kill left unfinished; returns the number of lines dropped."""
    if not path.exists():
        return 0
    lines = path.read_text().splitlines(keepends=True)
    if not lines:
        return 0
    try:
        json.loads(lines[-1])
        if lines[-1].endswith("\n"):
            return 0
    except json.JSONDecodeError:
        pass
    path.write_text("".join(lines[:-1]))
    return 1
