"""Probe of the local CPU."""

from __future__ import annotations

import json
import math
import platform
import re
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import psutil

from ...compiler.hardware import DISTURBED, Hardware
from ...compiler.host.file_cache import FileCache, code_version
from ...compiler.host.threads import linear_algebra_threads

_CPU_INFO = Path("/proc/cpuinfo")
_SYSTEM = Path("/sys/devices/system/cpu")
_COUNTERS = Path("/sys/bus/event_source/devices")
_COUNTER_UNITS = ("cpu", "cpu_core", "armv[78]*")
_VENDOR = r"^(?:vendor_id|CPU implementer)\s*:\s*(.*)$"
_FAMILY = r"^(?:cpu family|CPU architecture)\s*:\s*(.*)$"
_VECTOR_BITS = (("avx512f", 512), ("avx2", 256), ("avx", 256), ("asimd", 128), ("sse2", 128))
_INSTRUCTION_SETS = (
    *("sse4_2", "avx", "avx2", "fma", "f16c", "avx_vnni", "avx512f", "avx512bw", "avx512_vnni"),
    *("avx512_bf16", "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16"),
    *("asimd", "asimddp", "fphp", "sve", "sve2", "i8mm", "bf16"),
)
_USUAL_LINE_BYTES = 64
_MATRIX_ROWS = 1024
_SMALLEST_COPY_BYTES = 128 * 1024**2
_COPIED_SHARE_OF_L3 = 5 / 8

PEAKS = FileCache("peaks", 2**20)
"""Undisturbed peaks of this machine, which later runs read."""

_Peaks = tuple[tuple[float, bool], tuple[float, bool]]


def cpu_name() -> str:
    """Name of this machine's CPU as the operating system reports it."""
    info = _cpu_info()
    return _first(r"^model name\s*:\s*(.*)$", info) or platform.processor() or platform.machine()


def cpu_vendor_and_family() -> tuple[str, int]:
    """Vendor and family as the operating system reports them, such as AuthenticAMD and 25, else "" and 0."""
    info = _cpu_info()
    family = _first(_FAMILY, info)
    return _first(_VENDOR, info), int(family) if family.isdecimal() else 0


def cache_line_bytes() -> int:
    """Bytes of a cache line, 64 if the system does not report them."""
    return _reported_line_bytes() or _USUAL_LINE_BYTES


def probe_cpu(cores: int, measured: bool = True) -> Hardware:
    """Describe this machine's CPU as used by `cores` threads; takes about three seconds once in a process.

    All callers in a process get the same figures, which otherwise differ by some percent from probe to probe.

    `measured` False leaves out the peak rate and the bandwidth, which account for these seconds. They are NaN
    then, so the description identifies the device but does not serve as features.

    Measurements that other work on the machine disturbs are repeated, and the best counts. If none is
    undisturbed, DISTURBED is in the details. Undisturbed ones are kept in the user's cache folder.

    `frequency_ghz` is the maximum that the system allows for a core or, if it reports none, the highest
    current frequency.
    """
    return _probed(cores, measured)


def forget_probes() -> None:
    """Lets the next `probe_cpu` measure the peaks again, for example because the machine is quiet now."""
    _probed.cache_clear()
    PEAKS.clear()


@cache
def _probed(cores: int, measured: bool) -> Hardware:
    info = _cpu_info()
    flags = set(_first(r"^(?:flags|Features)\s*:\s*(.*)$", info).split())
    details = _details(info, flags)
    peak_gflops, bandwidth_gbs = math.nan, math.nan
    if measured:
        (peak_gflops, slow), (bandwidth_gbs, slow_copy) = _peaks(cores, details)
        if slow or slow_copy:
            details[DISTURBED] = True
    return Hardware(
        name=cpu_name(),
        kind="cpu",
        cores=cores,
        frequency_ghz=_frequency_ghz(info),
        vector_bits=next((bits for flag, bits in _VECTOR_BITS if flag in flags), 128),
        l1_bytes=_cache_bytes(1),
        l2_bytes=_cache_bytes(2),
        l3_bytes=_cache_bytes(3),
        peak_gflops=peak_gflops,
        bandwidth_gbs=bandwidth_gbs,
        details=details,
    )


def _details(info: str, flags: set[str]) -> dict[str, Any]:
    """Facts that the system reports, without the missing ones."""
    reported = {
        "vendor": _first(_VENDOR, info),
        "family": _first(_FAMILY, info),
        "model": _first(r"^(?:model|CPU part)\s*:\s*(.*)$", info),
        "stepping": _first(r"^(?:stepping|CPU revision)\s*:\s*(.*)$", info),
        "system_cores": psutil.cpu_count(logical=False),
        "threads_per_core": _listed(_read(_SYSTEM / "cpu0/topology/thread_siblings_list")),
        "threads_per_l3": _listed(_read(_cache_folder(3) / "shared_cpu_list")),
        "cache_line_bytes": _reported_line_bytes(),
        "memory_bytes": psutil.virtual_memory().total,
    }
    return {
        "figures": "measured",
        **{name: value for name, value in reported.items() if value},
        "instruction_sets": [flag for flag in _INSTRUCTION_SETS if flag in flags],
        "virtual_machine": "hypervisor" in flags,
        "hardware_counters": any(any(_COUNTERS.glob(unit)) for unit in _COUNTER_UNITS),
    }


def _cpu_info() -> str:
    return _CPU_INFO.read_text() if _CPU_INFO.exists() else ""


def _first(pattern: str, text: str) -> str:
    match = re.search(pattern, text, re.MULTILINE)
    return match.group(1).strip() if match else ""


def _read(path: Path) -> str:
    """Text of a system file, empty if it cannot be read."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _listed(ranges: str) -> int:
    """Number of entries of a list such as "0-3,8"."""
    bounds = [part.partition("-") for part in ranges.split(",") if part]
    return sum(int(last or first) - int(first) + 1 for first, _, last in bounds)


def _frequency_ghz(info: str) -> float:
    allowed = [_read(path) for path in _SYSTEM.glob("cpu[0-9]*/cpufreq/cpuinfo_max_freq")]
    khz = [float(text) for text in allowed if text]
    khz = khz or [float(mhz) * 1e3 for mhz in re.findall(r"^cpu MHz\s*:\s*(.*)$", info, re.MULTILINE)]
    return max(khz, default=0.0) / 1e6


def _cache_folder(level: int) -> Path:
    """Folder that describes the first core's data or unified cache of a level."""
    caches = _SYSTEM / "cpu0/cache"
    for index in sorted(caches.glob("index*")):
        if _read(index / "level") == str(level) and _read(index / "type") != "Instruction":
            return index
    return caches / "none"


def _reported_line_bytes() -> int:
    """Bytes of a cache line, 0 if the system does not report them."""
    return int(_read(_cache_folder(1) / "coherency_line_size") or 0)


def _cache_bytes(level: int) -> int:
    """Size of the first core's data or unified cache of a level, 0 if the system does not report it."""
    size = _read(_cache_folder(level) / "size")
    units = {"K": 1024, "M": 1024**2}
    return int(size[:-1]) * units[size[-1]] if size and size[-1] in units else int(size or 0)


def _peaks(cores: int, details: Mapping[str, Any]) -> _Peaks:
    """`_measure`, or its undisturbed result of an earlier run on a machine with these details."""
    machine = [cpu_name(), cores, sorted(details.items())]
    way = [
        _MATRIX_ROWS,
        _SMALLEST_COPY_BYTES,
        _COPIED_SHARE_OF_L3,
        *code_version(),
        *code_version(Path(__file__).parent),
    ]
    key = sha256(repr([*machine, *way]).encode()).hexdigest()
    if (kept := PEAKS.load(key)) is not None:
        gflops, gbs = json.loads(bytes(kept))
        return (gflops, False), (gbs, False)
    found = _measure(cores)
    if not any(disturbed for _, disturbed in found):
        PEAKS.store({key: [json.dumps([rate for rate, _ in found]).encode()]})
    return found


def _measure(cores: int) -> _Peaks:
    """Peak float32 GFLOP/s and memory GB/s of `cores` threads, each with whether other work disturbed it."""
    import torch

    from .peaks import copy_gbs, matmul_gflops, undisturbed_best

    cpu = torch.device("cpu")
    # Source and destination together exceed the last-level cache, as far as the memory allows.
    fits = psutil.virtual_memory().available // 8
    size_bytes = max(_SMALLEST_COPY_BYTES, min(int(_COPIED_SHARE_OF_L3 * _cache_bytes(3)), fits))
    with linear_algebra_threads(cores):
        return (
            undisturbed_best(lambda: matmul_gflops(cpu, _MATRIX_ROWS)),
            undisturbed_best(lambda: copy_gbs(cpu, size_bytes)),
        )
