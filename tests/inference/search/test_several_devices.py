"""The tuner with an executor of several devices: side by side, the same results, no program twice."""

from __future__ import annotations

import threading
from collections import Counter

from foretune.inference.search.config import OneShotConfig
from support.fake_executor import HARDWARE
from support.searchers import TASKS, UNTUNED_S, FakeDatabase, FakeSearcher, latency_of_module, network_tuner

_WAIT_S = 60.0


class SideBySide:
    """Executor whose first batches wait for each other: it ends in time only if all devices are at work."""

    batches_overlap = True

    def __init__(self, devices):
        self.devices = devices
        self.jobs = []
        self._lock = threading.Lock()
        self._together = threading.Barrier(devices)
        self._batches = 0

    def hardware(self):
        return HARDWARE

    def measure(self, jobs):
        with self._lock:
            self.jobs += jobs
            self._batches += 1
            first = self._batches <= self.devices
        if first:
            self._together.wait(_WAIT_S)
        return [latency_of_module(job) for job in jobs]


def tuned(devices):
    executor = SideBySide(devices)
    config = OneShotConfig(rounds=2, top_k=4, finalists=0)  # finalists are measured again on purpose
    tuner = network_tuner(config, executor, [FakeSearcher()], FakeDatabase())
    return tuner.tune(TASKS, UNTUNED_S), Counter(job.trace for job in executor.jobs)


def test_tasks_are_measured_on_all_devices_side_by_side_with_the_same_results():
    alone, programs = tuned(1)
    for devices in (2, 3):
        results, measured = tuned(devices)
        assert measured == programs and set(measured.values()) == {1}
        assert [(r.tuned_latency_s, r.candidates_measured) for r in results] == [
            (r.tuned_latency_s, r.candidates_measured) for r in alone
        ]
