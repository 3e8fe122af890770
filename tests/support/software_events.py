"""Software events of Linux, for tests of counters without hardware counters."""

from __future__ import annotations

import pytest
from foretune.dataset.measure.worker.counters import CountersUnavailableError, Event, count_events

TASK_CLOCK_NS, PAGE_FAULTS = Event(1, 1), Event(1, 2)


def _refusal() -> str:
    try:
        count_events(lambda: None, [TASK_CLOCK_NS])
    except CountersUnavailableError as unavailable:
        return str(unavailable)
    return ""


for_real = pytest.mark.skipif(bool(_refusal()), reason=f"no software events: {_refusal()}")
