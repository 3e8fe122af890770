"""Descriptions of devices: what a cost model is told about the machine that a record was measured on."""

from __future__ import annotations

import json
import platform
import re
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_CPU_INFO = Path("/proc/cpuinfo")
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_VECTOR_BITS = (("avx512f", 512), ("avx2", 256), ("avx", 256), ("asimd", 128), ("sse2", 128))


@dataclass(frozen=True)
class Hardware:
    """A device. `peak_gflops` and `bandwidth_gbs` are measured on all `cores`, the rest is reported."""

    name: str
    kind: str  # "cpu" or "cuda"
    cores: int
    frequency_ghz: float
    vector_bits: int
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int
    peak_gflops: float  # float32
    bandwidth_gbs: float

    @property
    def hardware_id(self) -> str:
        """Names the device by what it reports; measured figures vary from run to run and stay out."""
        reported = [self.name, self.kind, self.cores, self.vector_bits]
        reported += [self.l1_bytes, self.l2_bytes, self.l3_bytes]
        return sha256(json.dumps(reported).encode()).hexdigest()[:12]

    def features(self) -> NDArray[np.float32]:
        """float32 [HARDWARE_DIM]: log2 of each quantity, after whether it is a GPU (Fasor section 4.1)."""
        numbers = [getattr(self, field.name) for field in fields(self) if field.name not in ("name", "kind")]
        return np.array(
            [self.kind == "cuda", *(np.log2(1.0 + number) for number in numbers)], dtype=np.float32
        )

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Hardware:
        """Raises ValueError when the text is no description."""
        try:
            return cls(**json.loads(text))
        except (TypeError, json.JSONDecodeError) as error:
            raise ValueError(
                f"hardware description: {error}; expected a JSON object of {cls.__name__}"
            ) from error


HARDWARE_DIM = len(fields(Hardware)) - 1
"""Length of `Hardware.features`."""


def probe_cpu(cores: int) -> Hardware:
    """Describes this machine's CPU as used by `cores` threads; takes about a second."""
    info = _CPU_INFO.read_text() if _CPU_INFO.exists() else ""
    flags = set(_first(r"^(?:flags|Features)\s*:\s*(.*)$", info).split())
    return Hardware(
        name=_first(r"^model name\s*:\s*(.*)$", info) or platform.processor() or platform.machine(),
        kind="cpu",
        cores=cores,
        frequency_ghz=float(_first(r"^cpu MHz\s*:\s*(.*)$", info) or 0.0) / 1e3,
        vector_bits=next((bits for flag, bits in _VECTOR_BITS if flag in flags), 128),
        l1_bytes=_cache_bytes(1),
        l2_bytes=_cache_bytes(2),
        l3_bytes=_cache_bytes(3),
        peak_gflops=_measure_gflops(cores),
        bandwidth_gbs=_measure_bandwidth_gbs(cores),
    )


def _first(pattern: str, text: str) -> str:
    match = re.search(pattern, text, re.MULTILINE)
    return match.group(1).strip() if match else ""


def _cache_bytes(level: int) -> int:
    """Size of this core's data or unified cache of a level, 0 where the system does not say."""
    for index in sorted(_CACHES.glob("index*")):
        try:
            if (
                int((index / "level").read_text()) != level
                or (index / "type").read_text().strip() == "Instruction"
            ):
                continue
            size = (index / "size").read_text().strip()
        except OSError:
            continue
        return int(size[:-1]) * {"K": 1024, "M": 1024**2}[size[-1]] if size[-1] in "KM" else int(size)
    return 0


def _best_time(run: Callable[[], object], repeats: int) -> float:
    """Shortest of `repeats` runs in seconds: disturbances only ever add."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best


def _measure_gflops(cores: int) -> float:
    """float32 GFLOP/s of a 1024 x 1024 matrix product."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(cores)
    try:
        a, b = torch.rand(1024, 1024), torch.rand(1024, 1024)
        return 2 * 1024**3 / _best_time(lambda: torch.mm(a, b), 8) / 1e9
    finally:
        torch.set_num_threads(threads)


def _measure_bandwidth_gbs(cores: int) -> float:
    """GB/s read and written by copying 128 MiB, more than a last-level cache holds."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(cores)
    try:
        source = torch.ones(32 * 1024**2)
        target = torch.empty_like(source)
        return 2 * source.numel() * 4 / _best_time(lambda: target.copy_(source), 5) / 1e9
    finally:
        torch.set_num_threads(threads)
