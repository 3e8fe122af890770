"""Profile of a compiled network by its calls."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import tvm
from foretune.compiler.networks import Network, load_network, to_relax
from foretune.compiler.tvm_compat import parse_target
from foretune.inference.deploy import profile as subject
from foretune.inference.deploy.compile import CompiledNetwork, compile_network
from foretune.inference.deploy.load import load
from foretune.inference.deploy.profile import ProfileError, profile_network
from foretune.inference.run.network_profile import CallTime, NetworkProfile
from tvm import relax
from tvm.support.cc import get_cc

TARGET = parse_target("llvm")


@pytest.fixture(scope="module")
def network() -> Network:
    return load_network("support.networks:Residual", inputs=[[1, 8, 6, 6]])


@pytest.fixture(scope="module")
def compiled(network: Network) -> CompiledNetwork:
    return compile_network(to_relax(network, TARGET), TARGET)


def test_each_task_is_called_as_often_as_the_network_does(
    network: Network, compiled: CompiledNetwork
) -> None:
    began = time.perf_counter()
    profile = compiled.profile(*network.inputs)
    wall_s = time.perf_counter() - began
    calls = {call.task: call.calls for call in profile.calls if call.task}
    assert set(calls) == set(compiled.unscheduled)
    # Two equal blocks of convolution, batch norm, residual and ReLU.
    assert [number for name, number in calls.items() if "conv2d" in name] == [2]
    others = {call.name for call in profile.calls if not call.task}
    assert "vm.builtin.alloc_tensor" in others
    assert all(name.startswith("vm.builtin.") for name in others)
    assert 0 < sum(call.seconds for call in profile.calls) < wall_s
    assert 0 < profile.run_s < wall_s


@pytest.mark.skipif(get_cc() is None, reason="no C++ compiler")
def test_an_exported_network_has_the_same_calls(
    network: Network, compiled: CompiledNetwork, tmp_path: Path
) -> None:
    compiled.export(tmp_path / "network.so")
    loaded = load(tmp_path / "network.so")
    there, here = loaded.profile(*network.inputs, repeats=2), compiled.profile(*network.inputs)
    counts = [{(call.name, call.calls, call.task) for call in profile.calls} for profile in (there, here)]
    assert counts[0] == counts[1]
    assert loaded(*network.inputs)[1].shape == (1, 3)  # a profile leaves the network as it was


class _Clock:
    """A clock that only `wait` moves, in place of the time module."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += seconds


class _Machine:
    """Virtual machine whose network calls an outer function with an inner one, then one that does nothing.

    By the clock, the instrument takes 1 s a call, the inner function 2 s and the outer 5 s; 10 s pass between
    calls. In every second run of a machine all but the instrument takes `disturbed` times as long.
    """

    def __init__(self, clock: _Clock, runs: list[bool], disturbed: float) -> None:
        self._clock, self._runs, self._disturbed = clock, runs, disturbed
        self._instrument: Any = None

    def set_instrument(self, instrument: Any) -> None:
        self._instrument = instrument

    def __getitem__(self, name: str) -> Any:
        assert name == "main"
        return self._main

    def _main(self, *tensors: Any) -> None:
        self._runs.append(self._instrument is not None)
        self._slowness = self._disturbed if self._runs.count(self._instrument is not None) % 2 else 1.0
        self._call("outer", 5.0, [("inner", 2.0)])
        self._call("vm.builtin.null_value", 0.0, [])
        self._clock.wait(10.0 * self._slowness)

    def _call(self, name: str, seconds: float, inner: Sequence[tuple[str, float]]) -> None:
        if self._instrument is not None:
            self._instrument(None, name, True, None)
            self._clock.wait(1.0)
        for other, takes in inner:
            self._call(other, takes, [])
        self._clock.wait(seconds * self._slowness)
        if self._instrument is not None:
            self._instrument(None, name, False, None)


def made_up(
    monkeypatch: pytest.MonkeyPatch, disturbed: float = 1.0, **options: Any
) -> tuple[NetworkProfile, list[bool]]:
    """Profile of the network of _Machine, and whether each run had the instrument."""
    clock, runs = _Clock(), list[bool]()
    monkeypatch.setattr(subject, "time", clock)
    monkeypatch.setattr(relax, "VirtualMachine", lambda library, device: _Machine(clock, runs, disturbed))
    return profile_network(None, tvm.cpu(), [], {"outer": "task"}, **options), runs  # type: ignore[arg-type]


@pytest.mark.parametrize("disturbed", [1.0, 3.0])
def test_calls_count_undisturbed_without_those_within_them_and_without_the_instrument(
    disturbed: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile, _ = made_up(monkeypatch, disturbed, limit_s=1e9)
    assert profile.calls == [
        CallTime("outer", 1, 5.0, "task"),
        CallTime("inner", 1, 2.0),
        CallTime("vm.builtin.null_value", 1, 0.0),
    ]
    assert profile.run_s == 17.0 and profile.rest_s == 10.0


def test_runs_with_and_without_the_instrument_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    _, runs = made_up(monkeypatch, repeats=3, limit_s=1e9)
    assert runs == [False, True] * 4  # the first two are not timed
    _, runs = made_up(monkeypatch, limit_s=0.0)
    assert runs == [False, True] * 2


def test_a_profile_without_runs_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ProfileError, match="repeats=0"):
        made_up(monkeypatch, repeats=0)


def test_it_prints_as_a_table() -> None:
    profile = NetworkProfile(0.004, [CallTime("conv", 2, 0.003, "conv"), CallTime("relu", 1, 0.0005)])
    assert str(profile).splitlines() == [
        "conv               2     3.0000 ms   75.0%",
        "relu               1     0.5000 ms   12.5%",
        "between calls            0.5000 ms   12.5%",
        "one run                  4.0000 ms  100.0%",
    ]
