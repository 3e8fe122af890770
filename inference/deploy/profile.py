"""Profile of a compiled network: the time of each of its calls, and the remaining time between them."""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tvm
from tvm import relax

from ..run.network_profile import CallTime, NetworkProfile

_DOES_NOTHING = "vm.builtin.null_value"
"""Builtin that releases a register; its measured time is the instrument's overhead."""


class ProfileError(ValueError):
    """A profile needs at least one run."""


def profile_network(
    library: tvm.runtime.Module,
    device: tvm.runtime.Device,
    tensors: Sequence[tvm.runtime.Tensor],
    task_of: Mapping[str, str],
    repeats: int = 10,
    limit_s: float = 2.0,
) -> NetworkProfile:
    """Times the calls of a network with TVM's instrument, which the virtual machine calls around each one.

    Runs with and without the instrument alternate. The shortest time counts, both for whole runs and for
    the
    calls of each name: a disturbance only adds time, and disturbs some call of nearly every run. The
    overhead of the instrument is estimated from a call that does nothing, and subtracted from each call.

    Args:
        library: module that creates virtual machines. The profile creates new ones, because an instrument
            cannot be removed from the machine that users call.
        device: device that the network runs on.
        tensors: inputs on the device.
        task_of: name of the task of each function that runs one.
        repeats: runs of each kind, after an untimed one.
        limit_s: seconds after which no further run starts; each kind runs at least once.

    Raises ProfileError.
    """
    if repeats < 1:
        raise ProfileError(f"repeats={repeats}: a profile needs at least one run")
    plain, watched = relax.VirtualMachine(library, device)["main"], relax.VirtualMachine(library, device)
    instrument = _Instrument(device)
    watched.set_instrument(instrument)
    instrumented = watched["main"]
    for run in (plain, instrumented):
        run(*tensors)
    runs_s: list[float] = []
    taken: list[dict[str, list[float]]] = []
    started = time.perf_counter()
    while len(taken) < repeats and not (taken and time.perf_counter() - started > limit_s):
        runs_s.append(_seconds(lambda: (plain(*tensors), device.sync())))
        instrument.clear()
        instrumented(*tensors)
        taken.append(instrument.seconds)
    own_s = statistics.median(second for run in taken for second in run.get(_DOES_NOTHING, [0.0]))
    calls = [
        CallTime(
            name,
            len(taken[0][name]),
            min(sum(max(s - own_s, 0.0) for s in run[name]) for run in taken),
            task_of.get(name, ""),
        )
        for name in taken[0]
    ]
    ordered = sorted(calls, key=lambda call: -call.seconds)
    return NetworkProfile(min(runs_s), ordered)


class _Instrument:
    """TVM's instrument: the machine calls it before and after each call, with the call's name."""

    def __init__(self, device: tvm.runtime.Device) -> None:
        self._device = device
        self.clear()

    def clear(self) -> None:
        """Forgets all calls."""
        self.seconds: dict[str, list[float]] = defaultdict(list)
        """Seconds of each call by name, excluding nested calls."""
        self._open: list[list[float]] = []  # begin of each call under way, and seconds of calls within it

    def __call__(self, function: Any, name: str, before: bool, result: Any, *arguments: Any) -> int:
        if before:
            self._device.sync()
            self._open.append([time.perf_counter(), 0.0])
        else:
            self._device.sync()
            now = time.perf_counter()
            begun, inner = self._open.pop()
            self.seconds[str(name)].append(now - begun - inner)
            if self._open:
                self._open[-1][1] += now - begun
        return int(relax.VMInstrumentReturnKind.NO_OP)


def _seconds(run: Callable[[], object]) -> float:
    before = time.perf_counter()
    run()
    return time.perf_counter() - before
