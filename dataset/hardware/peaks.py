"""Measured roofline ceilings of a device: peak arithmetic rate and memory bandwidth."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from ...compiler.host.meter import DISTURBED_CORES, Meter

_RELATIVE_GAIN = 0.01
_PATIENCE_RUNS = 8
_BUDGET_S = 1.5


_ATTEMPTS = 4
"""Measurements of a ceiling on a machine that is never quiet."""


def undisturbed_best(measure: Callable[[], float], meter: Meter | None = None) -> tuple[float, bool]:
    """The largest of several measurements of a rate, and whether other work disturbed all of them.

    The first undisturbed measurement is the last one. Disturbances only lower a rate.
    """
    meter, best = meter or Meter(), 0.0
    for _ in range(_ATTEMPTS):
        before = meter.read()
        best = max(best, measure())
        wall_s, own_s, busy_s, waited_s = (now - then for now, then in zip(meter.read(), before, strict=True))
        if max(busy_s - own_s, waited_s) <= DISTURBED_CORES * wall_s:
            return best, False
    return best, True


def best_time_s(run: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """Shortest run in seconds; disturbances only ever add time.

    Stops after 8 runs in which the minimum improved by less than 1 %, or after 1.5 s.
    """
    best = float("inf")
    unchanged = 0
    started = clock()
    while unchanged < _PATIENCE_RUNS and clock() - started < _BUDGET_S:
        begin = clock()
        run()
        taken = clock() - begin
        unchanged = 0 if taken < best * (1 - _RELATIVE_GAIN) else unchanged + 1
        best = min(best, taken)
    return best


def matmul_gflops(device: torch.device, size: int, dtype: torch.dtype = torch.float32) -> float:
    """GFLOP/s of a product of two square matrices with `size` rows; float32 does not use TF32."""
    a = torch.rand(size, size, device=device, dtype=dtype)
    b = torch.rand(size, size, device=device, dtype=dtype)
    product = torch.empty_like(a)
    precision = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        return 2 * size**3 / best_time_s(_synchronised(device, lambda: torch.mm(a, b, out=product))) / 1e9
    finally:
        torch.set_float32_matmul_precision(precision)


def copy_gbs(device: torch.device, size_bytes: int) -> float:
    """GB/s, read plus written, of a copy of `size_bytes`, which should exceed the last-level cache."""
    source = torch.ones(size_bytes // 4, device=device)
    target = torch.empty_like(source)
    return 2 * size_bytes / best_time_s(_synchronised(device, lambda: target.copy_(source))) / 1e9


def _synchronised(device: torch.device, run: Callable[[], object]) -> Callable[[], object]:
    """Wrap `run` to wait for the device, and call it once to touch memory and load kernels."""

    def run_and_wait() -> None:
        run()
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    run_and_wait()
    return run_and_wait
