"""The gate of the measurements."""

from __future__ import annotations

import threading

import pytest
from foretune.inference.search.config import OneShotConfig
from foretune.inference.search.measuring import BatchGate
from foretune.inference.search.tuner import NetworkTuner
from support.fake_executor import FakeExecutor
from support.searchers import TASKS, UNTUNED_S, FakeDatabase, FakeSearcher, latency_of_module, network_tuner

_WAIT_S = 30.0


def test_work_waits_for_the_batch_inside_and_keeps_others_out() -> None:
    gate, order = BatchGate(), list[str]()
    inside, may_end = threading.Event(), threading.Event()

    def batches() -> None:
        for number in range(2):
            with gate.passed():
                inside.set()
                assert may_end.wait(_WAIT_S)
                order.append(f"batch {number}")

    thread = threading.Thread(target=batches)
    thread.start()
    assert inside.wait(_WAIT_S)
    threading.Timer(0.05, may_end.set).start()
    with gate.closed():
        order.append("work")
        thread.join(0.05)  # the second batch would end by now
        order.append("end of the work")
    thread.join()
    assert order == ["batch 0", "work", "end of the work", "batch 1"]


def test_the_gate_opens_after_an_interruption() -> None:
    gate = BatchGate()
    with pytest.raises(KeyboardInterrupt), gate.closed():
        raise KeyboardInterrupt
    with gate.passed():
        pass


def test_nothing_is_measured_while_the_caller_works_between_rounds() -> None:
    events: list[str] = []

    def measure(job):
        events.append("measured")
        return latency_of_module(job)

    def between_rounds(tuner: NetworkTuner, measuring) -> None:
        with measuring.paused():
            count = len(events)
            known = [task.tuned_latency_s for task in tuner.results()]
            events.append(f"{tuner.network_s() * 1e3:.0f} ms, {sum(map(bool, known))} tuned")
            assert len(events) == count + 1

    config = OneShotConfig(rounds=1, top_k=2, finalists=0)
    executor, database = FakeExecutor(measure, measure), FakeDatabase()
    tuner = network_tuner(config, executor, [FakeSearcher()], database, between_rounds=between_rounds)
    tuner.tune(TASKS, UNTUNED_S)
    assert events[0] == "60 ms, 0 tuned" and events[-1] == "12 ms, 3 tuned"
    assert events.count("measured") == 6 and tuner.share_done() == 1.0
