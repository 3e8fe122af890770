"""A disk that fills up during a search: one error, and the schedules until then."""

from __future__ import annotations

from pathlib import Path

import pytest
from foretune.compiler.replay import trace_to_json
from foretune.dataset.measure import MeasureOutcome
from foretune.files import CannotWriteError
from foretune.inference.database.tuning_database import TuningDatabase
from foretune.inference.search.candidate import Candidate, MeasuredCandidate, record_json
from support.checkpoints import HARDWARE, TARGET, TASK
from support.disks import FULL, READ_ONLY, refuse_writing
from tvm.s_tir import Schedule


def measured(latency_s: float) -> MeasuredCandidate:
    schedule = Schedule(TASK.mod)
    schedule.annotate(schedule.get_sblock("root"), "meta_schedule.unroll_explicit", int(1e6 * latency_s))
    trace = schedule.trace
    program = Candidate(trace_to_json(trace), 0.5, record=record_json(trace))
    return MeasuredCandidate(program, MeasureOutcome((latency_s,)))


@pytest.mark.parametrize(("number", "reason"), [(FULL, "No space left"), (READ_ONLY, "Read-only")])
def test_schedules_of_earlier_rounds_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, reason: str
) -> None:
    database = TuningDatabase(tmp_path, TARGET, HARDWARE)
    database.commit(TASK, [measured(3e-3), measured(2e-3)])
    refuse_writing(monkeypatch, tmp_path, number)
    told = rf"database_tuning_record\.json: cannot be written \({reason}.*or name another path$"
    with pytest.raises(CannotWriteError, match=told):
        database.commit(TASK, [measured(1e-3)])
    with pytest.raises(CannotWriteError, match=r"foretune_notes\.json: cannot be written"):
        database.notes.note_untuned(TASK, 0.5)
    monkeypatch.undo()
    found = TuningDatabase(tmp_path, TARGET, HARDWARE)
    assert sorted(found.latencies_s(TASK).values()) == [2e-3, 3e-3]
    found.commit(TASK, [measured(1e-3)])
    assert TuningDatabase(tmp_path, TARGET, HARDWARE).best_latency_s(TASK) == 1e-3
