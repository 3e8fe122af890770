"""Execution of a built library on a device: arguments, comparison with a reference, timing."""

from __future__ import annotations

import statistics
import time
from collections import OrderedDict
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any

import tvm

from ....compiler.codegen.compilation import CHECKED, TIMED
from ..job import MeasureConfig
from .memory_counters import count_fetched_bytes, uncounted_reason
from .reference import Buffers, Entries, host_arguments, load_expected, mismatch, sentinel_output

# One set for the current task, and one for a noise probe in between.
_ARGUMENTS_KEPT = 2
# Written between runs; exceeds the last-level cache of current GPUs (H200: 50 MB, B200: 126 MB).
_CUDA_FLUSH_BYTES = 256 * 1024**2
_CPU_FLUSH = "cache_flush_cpu_non_first_arg"
# Without a flush before each run, CUDA events time many short runs at once, as they resolve only 0.5 us.
_CUDA_GROUP_MS = 1
# Extra time that a first run may need for page faults and waking threads.
_FIRST_RUN_S = 0.1


class Bench:
    """Runs libraries on one device, local or at the other end of an RPC session."""

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
        """Check and time a library as `MeasureConfig` says; returns the worker's reply.

        `expected` is a file of `save_expected`, or None to compare nothing. With `count`, which works only on
        the local CPU, one more run counts the bytes that it fetches from memory.
        """
        arguments = self._arguments_for(entries[TIMED])
        start = time.perf_counter()
        if expected is not None and (wrong := self._wrong_output(library, entries, expected)):
            return {"wrong_output": wrong, "run_s": time.perf_counter() - start}
        reply = self._time(library, arguments, best_latency_s, start)
        # Count only after a timing well within the limit, so that counting never makes a program time out.
        if count and not reply["cut_short"] and 2 * (time.perf_counter() - start) < self.config.run_timeout_s:
            reply["moved_bytes"] = self._moved_bytes(library, arguments)
        return {**reply, "run_s": time.perf_counter() - start}

    def _wrong_output(self, library: tvm.runtime.Module, entries: Entries, path: str) -> str | None:
        entry = CHECKED if CHECKED in entries else TIMED
        buffers = entries[entry]
        arguments = self._arguments_for(buffers)
        expected = load_expected(Path(path))
        for index in expected:
            arguments[index].copyfrom(sentinel_output(*buffers[index]))
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
        # The first run also includes page faults and waking threads. A second run decides whether the program
        # is slow, unless the first run exceeded the cutoff by more than this extra time.
        slow_s = first_s
        if cutoff_s < first_s < cutoff_s + _FIRST_RUN_S:
            slow_s = self._once(library, arguments)
        if slow_s > cutoff_s:
            return {"run_secs": [slow_s], "cut_short": True}
        # A program whose first run exceeds the budget, as in untuned networks, gets a single repeat.
        evaluate = self._evaluator(library, config.repeats if first_s <= config.budget_s else 1)
        run_secs: list[float] = []
        for _ in range(config.groups):
            run_secs += evaluate(*arguments).results
            settled = statistics.median(run_secs) <= (1 + config.spread) * min(run_secs)
            if settled or time.perf_counter() - start > config.budget_s:
                break
        return {"run_secs": run_secs, "cut_short": False}

    def _moved_bytes(self, library: tvm.runtime.Module, arguments: list[Any]) -> float | None:
        """Bytes that a run fetches from memory after a cache flush; None if they cannot be counted."""
        if uncounted_reason():
            return None
        if self.config.cache_flush:
            tvm.get_global_func(_CPU_FLUSH)(*arguments)
        run = library[TIMED]
        return count_fetched_bytes(lambda: run(*arguments))

    def _once(self, library: tvm.runtime.Module, arguments: list[Any]) -> float:
        if self.remote:  # a local clock would include the network
            return library.time_evaluator(TIMED, self.device, number=1, repeat=1)(*arguments).mean
        start = time.perf_counter()
        library[TIMED](*arguments)
        self.device.sync()
        return time.perf_counter() - start

    def _evaluator(self, library: tvm.runtime.Module, repeats: int) -> Callable[..., Any]:
        """TVM's time evaluator for `repeats` runs on the device's own clock, CUDA events on CUDA."""
        flush = self.config.cache_flush
        if not self.on_cuda:
            preparation = _CPU_FLUSH if flush else ""
            return library.time_evaluator(TIMED, self.device, 1, repeats, f_preproc=preparation)
        if flush:
            return library.time_evaluator(TIMED, self.device, 1, repeats, cache_flush_bytes=_CUDA_FLUSH_BYTES)
        return library.time_evaluator(TIMED, self.device, 1, repeats, min_repeat_ms=_CUDA_GROUP_MS)

    def _arguments_for(self, buffers: Buffers) -> list[Any]:
        """Arguments on the device, reused for successive candidates of the same task.

        Weights whose layout a candidate chooses are copied with the same values in another shape.
        """
        key = repr([(prod(shape), dtype) for shape, dtype in buffers])
        if key not in self._arguments:
            if len(self._arguments) == _ARGUMENTS_KEPT:
                self._arguments.popitem(last=False)  # free memory before allocating the new ones
            values = host_arguments(buffers)
            self._arguments[key] = [tvm.runtime.tensor(value, self.device) for value in values]
        self._arguments.move_to_end(key)
        arguments = self._arguments[key]
        for index, (shape, _) in enumerate(buffers):
            if tuple(arguments[index].shape) != tuple(shape):
                values = arguments[index].numpy().reshape(shape)
                arguments[index] = tvm.runtime.tensor(values, self.device)
        return list(arguments)
