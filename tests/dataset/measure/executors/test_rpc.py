"""Tests with a real tracker and real servers on loopback, including the death of a server."""

import contextlib
import os
import platform
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import tvm
from foretune.compiler.codegen.compilation import export
from foretune.compiler.codegen.linker import LinkerError, linker
from foretune.compiler.tvm_compat import parse_target
from foretune.dataset.hardware import UnfitHardwareError, named_hardware
from foretune.dataset.measure import ExecutorConfig, ExecutorConfigError, MeasureConfig, make_executor
from foretune.dataset.records.schema import FailureKind
from support.programs import Doubled, DoubledInTiles, Sleeps, Tripled, checked, job
from support.torchless import without_torch

pytest.importorskip("tornado", reason="TVM's tracker needs tornado")

TARGET = parse_target("llvm")
MEASURE = MeasureConfig(build_timeout_s=60.0, run_timeout_s=4.0)


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


def start(module: str, *words: str) -> subprocess.Popen:
    """Start one of TVM's servers in its own process group."""
    command = [sys.executable, "-m", f"tvm.exec.{module}", "--host", "127.0.0.1", *words]
    quiet = subprocess.DEVNULL
    environment = {**os.environ, **without_torch()}
    return subprocess.Popen(command, stdout=quiet, stderr=quiet, start_new_session=True, env=environment)


def kill(process: subprocess.Popen) -> None:
    """Kill a server and its child processes by kill -9."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.fixture(scope="module")
def tracker():
    port = free_port()
    process = start("rpc_tracker", "--port", str(port), "--port-end", str(port + 1))
    while True:
        with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
            break
        assert process.poll() is None
        time.sleep(0.1)
    yield port
    kill(process)


def start_server(tracker: int) -> subprocess.Popen:
    port = free_port()
    places = ("--port", str(port), "--port-end", str(port + 1))
    return start("rpc_server", "--tracker", f"127.0.0.1:{tracker}", "--key", "board", *places)


def config(port: int, **settings) -> ExecutorConfig:
    chosen = {"key": "board", "hardware": "epyc-7452", "session_timeout_s": 20.0, "wait_s": 300.0, **settings}
    return ExecutorConfig(kind="rpc", port=port, **chosen)


def test_programs_are_timed_on_a_server_and_survive_its_death(tracker):
    server = start_server(tracker)
    try:
        with make_executor(config(tracker), TARGET, MEASURE, workers=1) as executor:
            assert executor.devices == 1
            assert executor.hardware() == named_hardware("epyc-7452")
            good, wrong = executor.measure([checked(DoubledInTiles), checked(Tripled)])
            assert good.failure is None and 0 < good.latency_s < 0.1
            assert wrong.failure is FailureKind.WRONG_OUTPUT

            replaced = []

            def kill_and_replace() -> None:
                time.sleep(1.0)
                kill(server)
                replaced.append(start_server(tracker))

            killer = threading.Thread(target=kill_and_replace)
            killer.start()
            outcomes = executor.measure([job(Sleeps), *(job(Doubled) for _ in range(3))])
            killer.join()
            server = replaced[0]
            assert outcomes[0].failure in (FailureKind.WORKER_DIED, FailureKind.RUN_TIMEOUT)
            assert [outcome.failure for outcome in outcomes[1:]] == [None] * 3
    finally:
        kill(server)


def test_a_tracker_that_is_not_there_is_named():
    port = free_port()
    with pytest.raises(ExecutorConfigError, match=rf"executor.port={port}: no tracker found within 0.1 s"):
        make_executor(config(port, wait_s=0.1), TARGET, MEASURE, workers=1)


def test_a_key_without_servers_is_named(tracker):
    with pytest.raises(ExecutorConfigError, match=r"no server of executor\.key=other found"):
        make_executor(config(tracker, key="other", wait_s=2.0), TARGET, MEASURE, workers=1)


def test_a_session_must_outlast_a_program():
    with pytest.raises(ExecutorConfigError, match=r"must be greater than measure\.run_timeout_s=4"):
        make_executor(config(1, session_timeout_s=4.0), TARGET, MEASURE, workers=1)


def test_a_device_that_cannot_run_the_target_is_refused():
    with pytest.raises(UnfitHardwareError, match=r"hardware=a100: .*cannot run programs of the target"):
        make_executor(config(1, hardware="a100"), TARGET, MEASURE, workers=1)


def test_another_architecture_takes_its_compiler(monkeypatch):
    board = parse_target({"kind": "llvm", "mtriple": "riscv64-linux-gnu"})
    port = free_port()
    with pytest.raises(LinkerError, match=r"mtriple=riscv64-linux-gnu .* no riscv64-linux-gnu-g\+\+"):
        make_executor(config(port), board, MEASURE, workers=1)
    monkeypatch.setattr("shutil.which", lambda name: name if name == "riscv64-linux-gnu-g++" else None)
    with pytest.raises(ExecutorConfigError, match="no tracker found"):
        make_executor(config(port, wait_s=0.1), board, MEASURE, workers=1)


@pytest.mark.parametrize(
    ("triple", "compiler"),
    [
        ("armv7l-linux-gnueabihf", "arm-linux-gnueabihf-g++"),
        ("arm64-linux-gnu", "aarch64-linux-gnu-g++"),
        ("aarch64-unknown-linux-gnu", "aarch64-linux-gnu-g++"),
    ],
)
def test_an_architecture_has_a_compiler_of_debians_name(triple, compiler, monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr("shutil.which", lambda name: None)
    package = re.escape(f"(on Debian g++-{compiler.removesuffix('-g++')})")
    with pytest.raises(LinkerError, match=package):
        linker(parse_target({"kind": "llvm", "mtriple": triple}))


def test_a_library_is_linked_by_the_compiler_of_its_architecture(tmp_path, monkeypatch):
    triple = f"{platform.machine()}-linux-gnu"
    compiler = tmp_path / f"{triple}-g++"
    compiler.write_text('#!/bin/sh\ntouch "$0.ran"\nexec g++ "$@"\n')
    compiler.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr("platform.machine", lambda: "another")
    export(Doubled, parse_target({"kind": "llvm", "mtriple": triple}), tmp_path / "doubled.so")
    assert Path(f"{compiler}.ran").exists()
    assert tvm.runtime.load_module(str(tmp_path / "doubled.so")).implements_function("main")
