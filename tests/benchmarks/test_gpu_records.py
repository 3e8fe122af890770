"""Counts of the records of a GPU's dataset, and generation that is stopped and says that it did not end."""

from __future__ import annotations

import pytest
from foretune.dataset.records.store import RecordStore
from support.paths import ROOT

from benchmarks import gpu_records


def test_records_are_counted_by_what_ran():
    found = gpu_records.counted(RecordStore(ROOT / "data" / "gpu"))
    assert (found["records"], found["valid"], found["tasks"], found["simulated"]) == (848, 696, 62, 0)
    assert found["samplers"] == {"database": 848}
    assert sum(found["failures"].values()) == 848 - 696
    assert sum(found["operators"].values()) == 62
    assert found["programs_a_task"] == pytest.approx(12, abs=2) and found["valid_a_minute"] > 0


class Process:
    """A process that ends with a status, or not in time."""

    def __init__(self, status: int | None) -> None:
        self.status, self.signals = status, []

    def wait(self, timeout: float) -> int:
        if self.status is None and not self.signals:
            raise gpu_records.subprocess.TimeoutExpired("generate", timeout)
        return self.status or 0

    def send_signal(self, number: int) -> None:
        self.signals.append(number)


@pytest.mark.parametrize(("status", "finished"), [(0, True), (None, False)])
def test_generation_is_finished_only_if_it_ends_by_itself(tmp_path, monkeypatch, status, finished):
    monkeypatch.setattr(gpu_records, "start_tied", lambda words: Process(status))
    assert gpu_records.generate([], tmp_path, minutes=1.0) == finished


def test_generation_that_measured_nothing_is_a_failure(tmp_path, monkeypatch):
    monkeypatch.setattr(gpu_records, "start_tied", lambda words: Process(2))
    with pytest.raises(gpu_records.subprocess.CalledProcessError):
        gpu_records.generate([], tmp_path, minutes=1.0)
