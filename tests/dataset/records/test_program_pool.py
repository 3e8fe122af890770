"""Time that the measurement of a dataset took."""

from __future__ import annotations

from dataclasses import replace

from foretune.dataset.records.program_pool import measuring_s
from foretune.dataset.records.store import RecordStore
from support.records import record


def test_gaps_of_each_device_count_but_for_pauses(tmp_path):
    """One device: 10 and 600 s, and a pause of 601 s; the other, in between: 30 s."""
    times = {"a": (0.0, 10.0, 610.0, 1211.0), "b": (5.0, 35.0)}
    found = [
        replace(record(number), hardware_id=device, timestamp=when)
        for device, each in times.items()
        for number, when in enumerate(each)
    ]
    RecordStore(tmp_path).append_records(found[::-1])
    assert measuring_s(tmp_path) == 640.0


def test_a_batch_alone_took_no_known_time(tmp_path):
    assert measuring_s(tmp_path / "nowhere") == 0.0
    RecordStore(tmp_path).append_records([record(0), record(1)])
    assert measuring_s(tmp_path) == 0.0
