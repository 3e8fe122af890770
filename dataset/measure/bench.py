"""The device's side of a measurement: arguments, comparison with the reference, timing."""

from __future__ import annotations

import statistics
import time
from collections import OrderedDict
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any

import tvm

from .compilation import CHECKED, TIMED
from .job import MeasureConfig
from .memory_counters import counted_bytes, why_not_counted
from .reference import Buffers, Entries, host_arguments, load_expected, mismatch, unwritten

# Those of the task at hand and those of a probe that comes in between.
_ARGUMENTS_KEPT = 2
# Written between runs: more than the last-level cache of any GPU so far (H200: 50 MB, B200: 126 MB).
_CUDA_FLUSH_BYTES = 256 * 1024**2
_CPU_FLUSH = "cache_flush_cpu_non_first_arg"
# Where no flush precedes each run, CUDA's events time many short runs at once: they resolve 0.5 us.
_CUDA_GROUP_MS = 1
# What a first run may take longer than others.
_FIRST_RUN_S = 0.1


class Bench:
    """Runs the libraries of one kind of device, local or at the other end of an RPC session."""

    def __init__(self, device: tvm.runtime.Device, config: MeasureConfig, remote: bool = False) -> None:
        self.device = device
        self.config = config
        self.remote = remote
        self.on_cuda = "cuda" in str(device)
        self._arguments: OrderedDict[str, list[tvm.runtime.Tensor]] = OrderedDict()

    def measure(
        self,
        library: tvm.runtime.Module,
        entries: Entries,
        best_latency_s: float,
        expected: str | None,
        count: bool = False,
    ) -> dict[str, Any]:
        """Checks and times a library as `MeasureConfig` says: what a worker replies.

        `expected` is a file of `save_expected`, None where nothing is to be compared. `count` is for the CPU
        of this machine: one more run counts what it fetches from memory.
        """
        arguments = self._arguments_for(entries[TIMED])
        start = time.perf_counter()
        if expected is not None and (wrong := self._wrong_output(library, entries, expected)):
            return {"wrong_output": wrong, "run_s": time.perf_counter() - start}
        reply = self._time(library, arguments, best_latency_s, start)
        # A run takes less than its timing took: while that is half of the limit, no program fails for it.
        if count and not reply["cut_short"] and 2 * (time.perf_counter() - start) < self.config.run_timeout_s:
            reply["moved_bytes"] = self._moved_bytes(library, arguments)
        return {**reply, "run_s": time.perf_counter() - start}

    def _wrong_output(self, library: tvm.runtime.Module, entries: Entries, path: str) -> str | None:
        entry = CHECKED if CHECKED in entries else TIMED
        buffers = entries[entry]
        arguments = self._arguments_for(buffers)
        expected = load_expected(Path(path))
        for index in expected:
            arguments[index].copyfrom(unwritten(*buffers[index]))
        library[entry](*arguments)
        self.device.sync()
        for index, want in expected.items():
            if wrong := mismatch(arguments[index].numpy(), want, buffers[index][1]):
                return f"argument {index}: {wrong}"
        return None

    def _time(
        self, library: tvm.runtime.Module, arguments: list[Any], best_latency_s: float, start: float
    ) -> dict[str, Any]:
        config = self.config
        cutoff_s = config.slow_factor * best_latency_s
        first_s = self._once(library, arguments)
        # The first run also pays for page faults and waking threads: only the second tells a slow program,
        # unless it is slower than these can make it.
        slow_s = first_s
        if cutoff_s < first_s < cutoff_s + _FIRST_RUN_S:
            slow_s = self._once(library, arguments)
        if slow_s > cutoff_s:
            return {"run_secs": [slow_s], "cut_short": True}
        # What takes longer than all repeats may gets one more run: the untuned tasks of a network are such.
        evaluate = self._evaluator(library, config.repeats if first_s <= config.budget_s else 1)
        run_secs: list[float] = []
        for _ in range(config.groups):
            run_secs += evaluate(*arguments).results
            settled = statistics.median(run_secs) <= (1 + config.spread) * min(run_secs)
            if settled or time.perf_counter() - start > config.budget_s:
                break
        return {"run_secs": run_secs, "cut_short": False}

    def _moved_bytes(self, library: tvm.runtime.Module, arguments: list[Any]) -> float | None:
        """Bytes that a run fetches from memory, after the cache flush of a timed one; None if not counted."""
        if why_not_counted():
            return None
        if self.config.cache_flush:
            tvm.get_global_func(_CPU_FLUSH)(*arguments)
        run = library[TIMED]
        return counted_bytes(lambda: run(*arguments))

    def _once(self, library: tvm.runtime.Module, arguments: list[Any]) -> float:
        if self.remote:  # a clock here would time the network
            return library.time_evaluator(TIMED, self.device, number=1, repeat=1)(*arguments).mean
        start = time.perf_counter()
        library[TIMED](*arguments)
        self.device.sync()
        return time.perf_counter() - start

    def _evaluator(self, library: tvm.runtime.Module, repeats: int) -> Callable[..., Any]:
        """Times `repeats` runs on the device's own clock: CUDA's events on CUDA."""
        flush = self.config.cache_flush
        if not self.on_cuda:
            preparation = _CPU_FLUSH if flush else ""
            return library.time_evaluator(TIMED, self.device, 1, repeats, f_preproc=preparation)
        if flush:
            return library.time_evaluator(TIMED, self.device, 1, repeats, cache_flush_bytes=_CUDA_FLUSH_BYTES)
        return library.time_evaluator(TIMED, self.device, 1, repeats, min_repeat_ms=_CUDA_GROUP_MS)

    def _arguments_for(self, buffers: Buffers) -> list[Any]:
        """Arguments on the device, made once for candidates of the same task that follow each other.

        Only weights whose layout a candidate chooses are made anew for it: the same numbers in another shape.
        """
        key = repr([(prod(shape), dtype) for shape, dtype in buffers])
        if key not in self._arguments:
            if len(self._arguments) == _ARGUMENTS_KEPT:
                self._arguments.popitem(last=False)  # before the new ones, for the sake of memory
            values = host_arguments(buffers)
            self._arguments[key] = [tvm.runtime.tensor(value, self.device) for value in values]
        self._arguments.move_to_end(key)
        arguments = self._arguments[key]
        for index, (shape, _) in enumerate(buffers):
            if tuple(arguments[index].shape) != tuple(shape):
                values = arguments[index].numpy().reshape(shape)
                arguments[index] = tvm.runtime.tensor(values, self.device)
        return list(arguments)
