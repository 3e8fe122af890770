"""Bytes that a piece of work fetches from memory, as the CPU's own counters tell.

Linux's general "cache misses" are those of the last cache on Intel's CPUs only: on AMD's Zen they are misses
of the second, on Arm of the first. So the events are chosen by CPU, and a CPU whose events are not known here
counts nothing. What is counted are lines on their way in, those that prefetchers ask for among them; a line
that is written is counted when it is fetched, not when it is written back.
"""

from __future__ import annotations

import functools
import platform
from collections.abc import Callable

from ..hardware.cpu import cache_line_bytes, cpu_vendor_and_family
from .counters import CountersUnavailableError, Event, count

_HARDWARE, _HARDWARE_CACHE, _RAW = 0, 3, 4  # enum perf_type_id
_GENERAL_CACHE_MISSES = 3  # PERF_COUNT_HW_CACHE_MISSES
_LAST_LEVEL_READ_MISSES = 2 | 0 << 8 | 1 << 16  # cache | operation | result

# LONGEST_LAT_CACHE.MISS: demand, and prefetches into the first two caches.
_INTEL = (Event(_HARDWARE, _GENERAL_CACHE_MISSES),)
# Zen 3, 4 and 5, as the kernel's tables of events (tools/perf/pmu-events) name them:
# ls_any_fills_from_sys.dram_io_all, and l2_pf_miss_l2_l3 of the prefetchers of the second cache, whose lines
# the first one does not show.
_ZEN = (Event(_RAW, 0x4844), Event(_RAW, 0x1F72))
_ZEN_FAMILIES = (0x19, 0x1A)
# LL_CACHE_MISS_RD.
_ARM = (Event(_HARDWARE_CACHE, _LAST_LEVEL_READ_MISSES),)


@functools.cache
def events_of_this_cpu() -> tuple[Event, ...]:
    """Events that each stand for one cache line fetched from memory; empty where none are known."""
    if platform.machine() == "aarch64":
        return _ARM
    vendor, family = cpu_vendor_and_family()
    if vendor == "GenuineIntel":
        return _INTEL
    return _ZEN if vendor == "AuthenticAMD" and family in _ZEN_FAMILIES else ()


@functools.cache
def why_not_counted() -> str:
    """Why this process cannot count, empty where it can; found out once."""
    events = events_of_this_cpu()
    if not events:
        vendor, family = cpu_vendor_and_family()
        maker = vendor or "an unknown maker"
        return f"foretune knows no counter of memory traffic for CPUs of {maker}, family {family}"
    try:
        count(lambda: None, events)
    except CountersUnavailableError as unavailable:
        return str(unavailable)
    return ""


def counted_bytes(work: Callable[[], object]) -> float | None:
    """Runs `work`, if this process can count; bytes it fetched from memory, None where not counted.

    None, too, where a counter shows nothing at all, as those of some virtual machines do.
    """
    if why_not_counted():
        return None
    try:
        lines = sum(count(work, events_of_this_cpu()))
    except CountersUnavailableError:
        return None
    return lines * cache_line_bytes() or None
