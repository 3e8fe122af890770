"""Profile of a compiled network: the time of each of its calls, and what is left between them."""

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
"""Builtin that releases a register: what its calls take is what the instrument takes."""


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
    """Times the calls of a network by TVM's instrument, which the virtual machine runs around each of them.

    Runs with the instrument and without take turns. The shortest counts, of the runs and of the calls of each
    name: a disturbance only adds time, and disturbs some call of nearly every run. What the instrument itself
    takes, estimated by a call that does nothing, is subtracted from each call.

    Args:
        library: module that makes virtual machines; the one that users call is left as it is, since an
            instrument cannot be taken off.
        device: device that the network runs on.
        tensors: inputs on the device.
        task_of: name of the task of each function that runs one.
        repeats: runs of either kind, after one that is not timed.
        limit_s: seconds after which there is no further run, but there is one of either kind.

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
    """TVM's instrument: called before and after each call, with its name."""

    def __init__(self, device: tvm.runtime.Device) -> None:
        self._device = device
        self.clear()

    def clear(self) -> None:
        """Forgets all calls."""
        self.seconds: dict[str, list[float]] = defaultdict(list)
        """Seconds of each call by name, without calls within it."""
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
