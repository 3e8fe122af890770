"""Killed processes: how many in a row a run endures, and its error for the user."""

from __future__ import annotations

import os
import signal
import time
from types import SimpleNamespace

import pytest
from foretune.compiler.tvm_compat import parse_target
from foretune.dataset.measure import MeasureConfig
from foretune.dataset.measure.worker import process as process_module
from foretune.dataset.measure.worker.losses import Losses, WorkersKilledError
from foretune.dataset.measure.worker.process import WorkerLostError, WorkerProcess, WorkerSpec
from foretune.dataset.measure.worker.replaceable import ReplaceableProcess
from foretune.dataset.records.schema import FailureKind

SPEC = WorkerSpec("search", parse_target("llvm"), MeasureConfig(), thrift="search.processes=1")


def killed(started_at: float | None = None) -> WorkerLostError:
    """Loss of a process that was killed; it started just now unless a time is given."""
    worker = SimpleNamespace(spec=SPEC, started_at=time.monotonic() if started_at is None else started_at)
    return WorkerLostError(FailureKind.WORKER_DIED, "killed by signal 9", killed=worker)


def test_the_third_kill_in_a_row_is_the_last():
    losses = Losses()
    for _ in range(2):
        losses.killed(killed())
    losses.answered()
    for _ in range(2):
        losses.killed(killed())
    told = (
        r"^search process: killed by signal 9, 3 times in a row; free some memory, or add "
        r"search\.processes=1, which needs less: the same command continues from what is stored$"
    )
    with pytest.raises(WorkersKilledError, match=told):
        losses.killed(killed())
    losses.killed(killed())  # another try begins anew


def test_one_request_that_kills_is_not_the_machine():
    losses = Losses()
    losses.answered()
    for _ in range(5):
        losses.killed(killed(), "bad")
    with pytest.raises(WorkersKilledError):
        losses.killed(killed(), "another")
    never = Losses()  # without any answer, nobody knows
    for _ in range(2):
        never.killed(killed(), "first")
    with pytest.raises(WorkersKilledError):
        never.killed(killed(), "first")


def test_processes_that_are_killed_together_count_once():
    losses, began = Losses(), time.monotonic()
    for _ in range(8):
        losses.killed(killed(began))
    losses.killed(killed())
    with pytest.raises(WorkersKilledError):
        losses.killed(killed())


def test_a_crash_of_its_own_does_not_count():
    losses = Losses()
    for _ in range(9):
        losses.killed(WorkerLostError(FailureKind.WORKER_DIED, "killed by signal 11"))


@pytest.mark.parametrize(
    ("counts", "cause"),
    [((3, 4), "out of memory as the kernel says"), ((3, 3), "probably out of memory")],
)
def test_the_kernel_is_asked_whether_memory_was_lacking(monkeypatch, counts, cause):
    answers = iter(counts)
    monkeypatch.setattr(process_module, "out_of_memory_kills", lambda: next(answers))
    worker = WorkerProcess(WorkerSpec("host", SPEC.target, SPEC.config))
    os.kill(worker.process.pid, signal.SIGKILL)
    with pytest.raises(WorkerLostError, match=f"^killed by signal 9, {cause}$") as lost:
        worker.receive(30, FailureKind.BUILD_TIMEOUT)
    assert lost.value.killed is worker
    worker.kill()


def test_a_process_that_is_killed_while_it_starts_is_replaced():
    started = []

    def start() -> WorkerProcess:
        started.append(WorkerProcess(WorkerSpec("host", SPEC.target, SPEC.config)))
        if len(started) == 1:
            os.kill(started[0].process.pid, signal.SIGKILL)
        return started[-1]

    worker = ReplaceableProcess(start)
    assert worker.wait_ready() is started[1]
    worker.kill()
