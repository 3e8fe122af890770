"""A disk that fills up during a search: one error, and the schedules until then."""

from __future__ import annotations

from pathlib import Path

import pytest
from foretune.dataset.measure import MeasureOutcome
from foretune.files import CannotWriteError
from foretune.inference.database.tuning_database import TuningDatabase
from support.checkpoints import HARDWARE, TARGET, TASK
from support.disks import FULL, refuse_writing
from support.fake_executor import FakeExecutor
from support.tuning import SHORT_SEARCH, tuned


def test_schedules_of_earlier_rounds_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = []

    def measure(job: object) -> MeasureOutcome:
        measured.append(job)
        if len(measured) == SHORT_SEARCH.top_k + 1:  # in the second round
            refuse_writing(monkeypatch, tmp_path, FULL)
        return MeasureOutcome((1e-3 / len(measured),))

    with pytest.raises(CannotWriteError, match=r"database_tuning_record\.json: cannot be written \(No space"):
        tuned(None, FakeExecutor(measure, measure), tmp_path, "evolutionary", top_k=4, rounds=2)
    monkeypatch.undo()
    found = TuningDatabase(tmp_path, TARGET, HARDWARE).latencies_s(TASK)
    assert sorted(found.values(), reverse=True) == pytest.approx([1e-3 / n for n in range(1, 5)])
