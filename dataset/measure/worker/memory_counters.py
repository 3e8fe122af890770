"""Memory traffic of a function, counted by the CPU's performance counters.

Linux's generic "cache misses" event counts last-level misses on Intel CPUs only; on AMD Zen it counts misses
of the second level, on Arm those of the first. Events are therefore chosen by CPU, and unknown CPUs count
nothing. The events count cache lines read from memory, including prefetched ones. A written line counts when
it is fetched, not when it is written back.
"""

from __future__ import annotations

import functools
import platform
from collections.abc import Callable

from ...hardware.cpu import cache_line_bytes, cpu_vendor_and_family
from .counters import CountersUnavailableError, Event, count_events

_HARDWARE, _HARDWARE_CACHE, _RAW = 0, 3, 4  # enum perf_type_id
_GENERAL_CACHE_MISSES = 3  # PERF_COUNT_HW_CACHE_MISSES
_LAST_LEVEL_READ_MISSES = 2 | 0 << 8 | 1 << 16  # cache | operation | result

# LONGEST_LAT_CACHE.MISS counts demand misses and prefetches into the first two levels.
_INTEL = (Event(_HARDWARE, _GENERAL_CACHE_MISSES),)
# Zen 3, 4 and 5, with the names of the kernel's event tables (tools/perf/pmu-events):
# ls_any_fills_from_sys.dram_io_all, and l2_pf_miss_l2_l3 for lines of the L2 prefetchers, which the first
# event does not include.
_ZEN = (Event(_RAW, 0x4844), Event(_RAW, 0x1F72))
_ZEN_FAMILIES = (0x19, 0x1A)
# LL_CACHE_MISS_RD.
_ARM = (Event(_HARDWARE_CACHE, _LAST_LEVEL_READ_MISSES),)


@functools.cache
def memory_events() -> tuple[Event, ...]:
    """Events that each count one cache line fetched from memory; empty for an unknown CPU."""
    if platform.machine() == "aarch64":
        return _ARM
    vendor, family = cpu_vendor_and_family()
    if vendor == "GenuineIntel":
        return _INTEL
    return _ZEN if vendor == "AuthenticAMD" and family in _ZEN_FAMILIES else ()


@functools.cache
def uncounted_reason() -> str:
    """Reason why this process cannot count, empty if it can; determined once."""
    events = memory_events()
    if not events:
        vendor, family = cpu_vendor_and_family()
        maker = vendor or "an unknown vendor"
        return f"no counter of memory traffic is known for CPUs of {maker}, family {family}"
    try:
        count_events(lambda: None, events)
    except CountersUnavailableError as unavailable:
        return str(unavailable)
    return ""


def count_fetched_bytes(work: Callable[[], object]) -> float | None:
    """Run `work` and return the bytes that it fetched from memory; returns None if they cannot be counted.

    If counters are known to be unavailable, `work` does not run. The result is also None if the counters show
    nothing at all, as in some virtual machines.
    """
    if uncounted_reason():
        return None
    try:
        lines = sum(count_events(work, memory_events()))
    except CountersUnavailableError:
        return None
    return lines * cache_line_bytes() or None
