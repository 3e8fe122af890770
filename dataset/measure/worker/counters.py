"""Linux performance counters around a function, summed over the threads of this process.

The module calls perf_event_open(2) and needs neither root nor a library. Each thread has counters of its own,
as inheritance would not reach the existing threads of TVM's pool. Only user space is counted; any user may do
that if `perf_event_paranoid` is 2 or less.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import platform
import struct
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

_THREADS = Path("/proc/self/task")
_PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
_CALL_NUMBERS = {"x86_64": 298, "aarch64": 241}
_ENABLE, _DISABLE = 0x2400, 0x2401
_CLOSE_ON_EXEC = 1 << 3
_DISABLED, _EXCLUDE_KERNEL, _EXCLUDE_HYPERVISOR = 1 << 0, 1 << 5, 1 << 6
# A read returns the value, then the nanoseconds that the event was enabled and that it had a counter.
_WITH_TIMES = 0b11
_READ = struct.Struct("=QQQ")


class CountersUnavailableError(Exception):
    """Events cannot be counted; the message says why and what to do."""


@dataclass(frozen=True)
class Event:
    """Hardware or software event: `type` and `config` of perf_event_attr."""

    type: int
    config: int


class _Attributes(ctypes.Structure):
    """First published version of perf_event_attr, accepted by every kernel."""

    _fields_ = (
        ("type", ctypes.c_uint32),
        ("size", ctypes.c_uint32),
        ("config", ctypes.c_uint64),
        ("sample_period", ctypes.c_uint64),
        ("sample_type", ctypes.c_uint64),
        ("read_format", ctypes.c_uint64),
        ("flags", ctypes.c_uint64),
        ("wakeup_events", ctypes.c_uint32),
        ("breakpoint_type", ctypes.c_uint32),
        ("breakpoint_address", ctypes.c_uint64),
    )


def count_events(work: Callable[[], object], events: Sequence[Event]) -> list[float]:
    """Run `work` once and return the count of each event, scaled if counters were multiplexed.

    Raises CountersUnavailableError; if an event cannot be opened, `work` does not run.
    """
    caller = threading.get_native_id()
    # This thread's counters are enabled last and disabled first, so that this loop is not counted.
    threads = sorted(_threads(), key=lambda thread: thread == caller)
    totals = [0.0] * len(events)
    with ExitStack() as opened:
        counters = [
            (index, file)
            for thread in threads
            for index, event in enumerate(events)
            if (file := _opened(event, thread, opened)) is not None
        ]
        for _, file in counters:
            _control(file, _ENABLE)
        work()
        for _, file in reversed(counters):
            _control(file, _DISABLE)
        for index, file in counters:
            totals[index] += scale_count(*_READ.unpack(os.read(file, _READ.size)))
    return totals


def scale_count(value: int, enabled_ns: int, running_ns: int) -> float:
    """Extrapolate a count from the time that the event had a counter to the time it was enabled.

    Raises CountersUnavailableError if the event never had a counter while its thread ran.
    """
    if running_ns:
        return value * (enabled_ns / running_ns)
    if enabled_ns:
        raise CountersUnavailableError("all counters of the CPU are in use by others; try again later")
    return 0.0  # the thread was asleep


def _threads() -> list[int]:
    if sys.platform != "linux":
        raise CountersUnavailableError(f"counters need Linux, and this is {sys.platform}")
    return [int(thread.name) for thread in _THREADS.iterdir()]


def _opened(event: Event, thread: int, opened: ExitStack) -> int | None:
    """Open a disabled counter of a thread, closed by `opened`; None if the thread has ended."""
    machine = platform.machine()
    if machine not in _CALL_NUMBERS:
        raise CountersUnavailableError(
            f"perf_event_open is known for {' and '.join(_CALL_NUMBERS)}, not for {machine}"
        )
    attributes = _Attributes(
        type=event.type,
        size=ctypes.sizeof(_Attributes),
        config=event.config,
        read_format=_WITH_TIMES,
        flags=_DISABLED | _EXCLUDE_KERNEL | _EXCLUDE_HYPERVISOR,
    )
    any_cpu, no_group = -1, -1
    file = _system_call(_CALL_NUMBERS[machine], attributes, thread, any_cpu, no_group, _CLOSE_ON_EXEC)
    if file >= 0:
        opened.callback(os.close, file)
        return file
    if (code := ctypes.get_errno()) == errno.ESRCH:
        return None
    raise CountersUnavailableError(_reason(code))


def _system_call(number: int, attributes: _Attributes, *arguments: int) -> int:
    """Return a file descriptor, or -1 with the cause in ctypes' errno."""
    pointer = ctypes.byref(attributes)
    return int(_c_library().syscall(ctypes.c_long(number), pointer, *map(ctypes.c_long, arguments)))


@functools.cache
def _c_library() -> ctypes.CDLL:
    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    return library


def _control(file: int, request: int) -> None:
    import fcntl  # does not exist on every system

    fcntl.ioctl(file, request, 0)


def _reason(code: int) -> str:
    name = errno.errorcode.get(code, str(code))
    if code in (errno.EACCES, errno.EPERM):
        level = _PARANOID.read_text().strip() if _PARANOID.exists() else "missing"
        return (
            f"not allowed ({name}): {_PARANOID} is {level} and must be 2 or less, and a container must allow "
            "perf_event_open"
        )
    if code in (errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP, errno.EINVAL, errno.ENXIO):
        return f"the CPU or its virtual machine has no such counter ({name})"
    if code == errno.ENOSYS:
        return f"the kernel has no perf_event_open ({name})"
    return f"{os.strerror(code)} ({name})"
