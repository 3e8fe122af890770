"""Tests with a real Ray cluster on this machine, including the death of an actor."""

import os
import signal
import socket
import sys
import threading
import time

import pytest
from foretune.compiler.tvm_compat import parse_target
from foretune.dataset.hardware import cpu_name
from foretune.dataset.measure import ExecutorConfig, ExecutorConfigError, MeasureConfig, make_executor
from foretune.dataset.records.schema import FailureKind
from support.killed_workers import arguments_of
from support.programs import Aborts, Doubled, DoubledInTiles, Sleeps, Tripled, checked, job
from support.ray_cluster import ray_cluster

ray = pytest.importorskip("ray", reason="Ray is an extra")

from foretune.dataset.measure.executors.ray_connection import connect  # noqa: E402

TARGET = parse_target({"kind": "llvm", "num-cores": 1})
MEASURE = MeasureConfig(build_timeout_s=60.0, run_timeout_s=4.0)


@pytest.fixture(scope="module")
def cluster():
    with ray_cluster(torch=True, num_cpus=1):
        yield


def test_candidates_are_measured_by_an_actor_and_survive_its_death(cluster, caplog):
    with make_executor(ExecutorConfig(kind="ray"), TARGET, MEASURE, workers=1) as executor:
        assert executor.devices == 1
        jobs = [checked(DoubledInTiles), checked(Tripled), job(Aborts)]
        outcomes = executor.measure(jobs)
        assert [outcome.failure for outcome in outcomes] == [
            None,
            FailureKind.WRONG_OUTPUT,
            FailureKind.WORKER_DIED,
        ]
        assert 0 < outcomes[0].latency_s < 0.1

        (victim,) = executor.actor_pids
        assert os.getpriority(os.PRIO_PROCESS, victim) == os.getpriority(os.PRIO_PROCESS, 0)
        assert "niceness" not in caplog.text
        killer = threading.Timer(1.0, os.kill, (victim, signal.SIGKILL))
        killer.start()
        outcomes = executor.measure([job(Sleeps), *(job(Doubled) for _ in range(3))])
        assert outcomes[0].failure is FailureKind.RUN_TIMEOUT
        assert [outcome.failure for outcome in outcomes[1:]] == [None] * 3
        assert victim not in executor.actor_pids
        assert "the actor of device 0 died; its 4 candidates are measured again" in caplog.text
        assert executor.hardware().kind == "cpu"


def test_nothing_of_an_actor_outlives_it(cluster):
    with make_executor(ExecutorConfig(kind="ray"), TARGET, MEASURE, workers=1) as executor:
        executor.measure([job(Doubled)])
        (actor,) = executor.actor_pids
        workers = _children(actor)
        assert workers
        os.kill(actor, signal.SIGKILL)
        deadline = time.monotonic() + 30
        while any(os.path.exists(f"/proc/{pid}") for pid in workers):  # noqa: PTH110
            assert time.monotonic() < deadline
            time.sleep(0.1)


def test_actors_that_give_way_to_others_are_told_of_once(cluster, caplog):
    with make_executor(ExecutorConfig(kind="ray"), TARGET, MEASURE, workers=1) as executor:
        (slot,) = executor._slots.values()
        for _ in range(2):
            executor._admit(slot, 1, "Example CPU", 19)
        assert caplog.text.count("actors run at niceness 19") == 1
        assert caplog.text.count("RAY_worker_niceness=0") == 1


def test_a_node_of_another_kind_is_left_out(cluster, caplog):
    with make_executor(ExecutorConfig(kind="ray"), TARGET, MEASURE, workers=1) as executor:
        executor._device_name = "Example CPU"  # as if a node with another CPU had started first
        deadline = time.monotonic() + 60
        while not executor._excluded_nodes:
            assert time.monotonic() < deadline
            assert executor._running() == []
            time.sleep(0.1)
        assert executor._running() == [] and not executor.actor_pids
    assert f"has a {cpu_name()}, the first node a Example CPU; it is excluded" in caplog.text


def test_joining_a_cluster_leaves_the_signals_alone(monkeypatch):
    def heard_by_ray(**_):
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(number))

    monkeypatch.setattr(ray, "init", heard_by_ray)
    before = signal.getsignal(signal.SIGTERM)
    connect(None)
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("127.0.0.1:{port}", r"nothing answers there \(.*start a cluster by `ray start --head`"),
        ("127.0.0.1:99999", r"executor.address=127.0.0.1:99999: nothing answers there"),
    ],
)
def test_an_address_without_a_cluster_is_an_error_within_seconds(address, message):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # and nothing listens
        port = unused.getsockname()[1]
        started = time.monotonic()
        with pytest.raises(ExecutorConfigError, match=message):
            connect(address.format(port=port))
        assert time.monotonic() - started < 20


def _children(pid: int) -> list[int]:
    import psutil

    children = psutil.Process(pid).children(recursive=True)
    return [child.pid for child in children if "foretune.dataset.measure.worker.main" in arguments_of(child)]
