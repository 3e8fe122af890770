"""Tests of the number of processes and tasks that keep a machine busy."""

import ctypes
import os
import signal
import threading
import time
from concurrent.futures import wait as futures_wait

import pytest
from foretune.compiler.tvm_compat import parse_target
from foretune.dataset.generation import crew as crew_module
from foretune.dataset.generation.config import GenerateConfig
from foretune.dataset.generation.crew import Crew, plan_crew, run_device_workers
from foretune.dataset.measure import ExecutorConfig
from support.cpus import cpu

CUDA = parse_target({"kind": "cuda", "arch": "sm_90"})
CPU = cpu("cooperlake")


@pytest.fixture(autouse=True)
def sixteen_cores(monkeypatch):
    monkeypatch.setattr(crew_module, "available_cores", lambda: 16)


def crew_of(tmp_path, kind, target, devices=1, **settings):
    executor = ExecutorConfig(kind=kind, key="key", hardware="a100")
    return plan_crew(GenerateConfig(dataset=tmp_path, executor=executor, **settings), target, devices)


def test_a_gpu_has_a_task_for_each_sampler_one_timed_and_a_queue_for_the_compilers(tmp_path):
    assert crew_of(tmp_path, "local", CUDA, per_round=64) == Crew(samplers=8, tasks=8 + 1 + 1)
    # 48 programs ahead of 16 compilers are three rounds of 16.
    assert crew_of(tmp_path, "local", CUDA, per_round=16) == Crew(samplers=8, tasks=8 + 3 + 1)
    assert crew_of(tmp_path, "local", CUDA, devices=4, per_round=16) == Crew(samplers=8, tasks=3)
    assert crew_of(tmp_path, "local", CUDA, workers=64, per_round=16).tasks == 8 + 12 + 1


@pytest.mark.parametrize("kind", ["rpc", "dry_run"])
def test_devices_elsewhere_are_served_like_a_gpu(tmp_path, kind):
    assert crew_of(tmp_path, kind, CPU, per_round=16) == crew_of(tmp_path, "local", CUDA, per_round=16)


def test_two_cores_start_with_two_samplers(tmp_path, monkeypatch):
    monkeypatch.setattr(crew_module, "available_cores", lambda: 2)
    assert crew_of(tmp_path, "local", CUDA).samplers == 2
    monkeypatch.setattr(crew_module, "available_cores", lambda: 1)
    assert crew_of(tmp_path, "local", CUDA).samplers == 1


@pytest.mark.parametrize(("priority", "pauses"), [(True, False), (False, True)])
def test_samplers_pause_beside_a_timing_on_this_cpu_without_priority(tmp_path, monkeypatch, priority, pauses):
    monkeypatch.setattr(crew_module, "realtime_priority_allowed", lambda: priority)
    assert crew_of(tmp_path, "local", CPU) == Crew(samplers=2, tasks=3, pauses=pauses)
    # In the main process nothing can be paused, so that it samples between measurements.
    assert crew_of(tmp_path, "local", CPU, samplers=0).tasks == (2 if priority else 1)


def test_a_task_on_a_cluster_of_cpus_samples_between_its_own_measurements(tmp_path):
    assert crew_of(tmp_path, "ray", CPU, devices=3) == Crew(samplers=3, tasks=1)
    assert crew_of(tmp_path, "ray", CUDA, devices=3).tasks == 4


def test_a_single_worker_runs_in_the_callers_thread_in_order():
    seen = []
    run_device_workers(
        [3, 1, 2], [7], lambda item, device, stop: seen.append((item, device, threading.current_thread()))
    )
    assert seen == [(item, 7, threading.main_thread()) for item in (3, 1, 2)]


def test_workers_run_side_by_side_and_share_the_items():
    met = threading.Barrier(2, timeout=10)
    seen = []

    def work(item, device, stop):
        met.wait()  # passes only once both devices hold an item
        seen.append((item, device))

    run_device_workers(range(6), [0, 1], work)
    assert sorted(item for item, _ in seen) == list(range(6))
    assert {device for _, device in seen} == {0, 1}


def test_a_failure_of_one_worker_stops_the_others_and_is_raised():
    started = threading.Event()
    seen = []

    def work(item, device, stop):
        seen.append(item)
        if item == 0:
            assert started.wait(10)
            raise ValueError("broken device")
        started.set()
        assert stop.wait(10)

    with pytest.raises(ValueError, match="broken device"):
        run_device_workers(range(100), [0, 1], work)
    assert len(seen) == 2


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="signals go to threads on POSIX")
def test_an_interrupt_stops_the_workers_whichever_thread_the_system_gives_it_to():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    stopped = []

    def work(item, device, stop):
        if device == 0:
            stop.wait(0.3)  # the main thread is waiting by then
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        stopped.append(stop.wait(10))

    try:
        with pytest.raises(KeyboardInterrupt):
            run_device_workers(range(2), [0, 1], work)
    finally:
        signal.signal(signal.SIGINT, before)
    assert stopped == [True, True]


def test_an_interrupt_that_meets_a_finaliser_is_not_lost(monkeypatch):
    """Python prints and drops an exception that a signal handler raises inside `__del__`."""

    class Dying:
        def __del__(self):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)  # Python runs the handler here

    waited = []

    def wait(*arguments, **named):
        if not waited:
            Dying()
        waited.append(True)
        return futures_wait(*arguments, **named)

    monkeypatch.setattr(crew_module, "wait", wait)
    stopped = []
    with pytest.raises(KeyboardInterrupt):
        run_device_workers(range(2), [0, 1], lambda item, device, stop: stopped.append(stop.wait(10)))
    assert stopped == [True, True] and len(waited) == 1


def test_an_interrupt_is_heard_though_native_code_has_left_its_own_handler_behind():
    """Two threads that call TVM's solver Z3 at once may leave its handler installed."""
    libc, heard, stopped = ctypes.CDLL(None), [], []
    libc.signal.argtypes, libc.signal.restype = [ctypes.c_int, ctypes.c_void_p], ctypes.c_void_p

    def work(item, device, stop):
        if device == 0:
            libc.signal(signal.SIGINT, signal.SIG_IGN.value)
            time.sleep(3 * crew_module._LOOK_EVERY_S)
            os.kill(os.getpid(), signal.SIGINT)
        stopped.append(stop.wait(10))

    with pytest.raises(KeyboardInterrupt):
        run_device_workers(range(2), [0, 1], work, lambda: heard.append(True))
    assert stopped == [True, True] and heard == [True]


def test_a_second_interrupt_waits_for_the_workers_too():
    ended = []

    def work(item, device, stop):
        if device == 0:
            os.kill(os.getpid(), signal.SIGINT)
        assert stop.wait(10)
        if device == 0:
            os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.1)
        ended.append(device)

    with pytest.raises(KeyboardInterrupt):
        run_device_workers(range(2), [0, 1], work)
    assert sorted(ended) == [0, 1]


def test_nothing_to_do_is_done():
    run_device_workers([], [0, 1], lambda item, device, stop: pytest.fail("no item"))
