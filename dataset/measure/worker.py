"""The measuring process: imports TVM once, then builds by JIT and times whatever it is sent.

It is started by `WorkerPool` as `python -m foretune.dataset.measure.worker FD` and talks JSON over the
connection that it inherits as FD. A candidate that crashes or hangs takes this process with it and nothing
else.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import tvm
from tvm.target import Target

from ..tvm_compat import argument_buffers
from .job import MeasureConfig

_MESSAGE_CHARS = 2000


class Bench:
    """Holds built candidates by job number and the input arrays of the task at hand."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.device = tvm.device(target.kind.name if target.kind.name != "llvm" else "cpu", 0)
        self._built: dict[int, tuple[Any, Any, list[tuple[tuple[int, ...], str]]]] = {}
        self._inputs_for: str = ""
        self._inputs: list[tvm.runtime.Tensor] = []

    def build(self, job: int, module: str) -> dict[str, Any]:
        """Compiles a scheduled module in memory and resolves its entry, which triggers the JIT."""
        start = time.perf_counter()
        mod = tvm.ir.load_json(module)
        executable = tvm.compile(mod, target=self.target)
        library = executable.jit() if hasattr(executable, "jit") else executable
        entry = library["main"]
        self._built[job] = (library, entry, argument_buffers(mod))
        return {"build_s": time.perf_counter() - start}

    def run(self, job: int, best_latency_s: float, config: MeasureConfig) -> dict[str, Any]:
        """Times a built candidate as `MeasureConfig` says and forgets it."""
        library, entry, buffers = self._built.pop(job)
        inputs = self._arrays(buffers)
        start = time.perf_counter()
        with _own_core():
            return self._time(library, entry, inputs, best_latency_s, config, start)

    def _time(
        self,
        library: Any,
        entry: Any,
        inputs: list[tvm.runtime.Tensor],
        best_latency_s: float,
        config: MeasureConfig,
        start: float,
    ) -> dict[str, Any]:
        cutoff_s = config.slow_factor * best_latency_s
        first_s = self._once(entry, inputs)
        # The first run also pays for page faults and waking threads: only the second tells a slow program.
        if first_s > cutoff_s and (second_s := self._once(entry, inputs)) > cutoff_s:
            return {"run_secs": [second_s], "cut_short": True, "run_s": time.perf_counter() - start}
        evaluator = library.time_evaluator(
            "main",
            self.device,
            number=1,
            repeat=config.repeats,
            f_preproc="cache_flush_cpu_non_first_arg" if config.cache_flush else "",
        )
        run_secs: list[float] = []
        for _ in range(config.groups):
            run_secs += evaluator(*inputs).results
            settled = statistics.median(run_secs) <= (1 + config.spread) * min(run_secs)
            if settled or time.perf_counter() - start > config.budget_s:
                break
        return {"run_secs": run_secs, "cut_short": False, "run_s": time.perf_counter() - start}

    def _once(self, entry: Any, inputs: list[tvm.runtime.Tensor]) -> float:
        start = time.perf_counter()
        entry(*inputs)
        self.device.sync()
        return time.perf_counter() - start

    def _arrays(self, buffers: list[tuple[tuple[int, ...], str]]) -> list[tvm.runtime.Tensor]:
        """Arguments of the task, made once. Integers are zeros: they may index into other arguments."""
        key = json.dumps(buffers)
        if key != self._inputs_for:
            rng = np.random.default_rng(0)
            self._inputs = [
                tvm.runtime.tensor(
                    rng.uniform(-1, 1, shape).astype(dtype)
                    if dtype.startswith("float")
                    else np.zeros(shape, dtype),
                    self.device,
                )
                for shape, dtype in buffers
            ]
            self._inputs_for = key
        return self._inputs


@contextmanager
def _own_core() -> Iterator[None]:
    """Keeps this thread on the first core while a program is timed.

    TVM binds the other threads of its pool to the cores after the first and lets this one float: it may land
    on a core of theirs and stay for a scheduler tick of 4 ms, which doubles the latency of short programs.
    """
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def _die_with_parent() -> None:
    """Asks Linux to kill this process when its parent goes, so that a kill -9 leaves nothing behind."""
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def serve(connection: Connection) -> None:
    """Answers requests until the other end closes."""
    hello = json.loads(connection.recv_bytes())
    config = MeasureConfig(**hello["config"])
    bench = Bench(Target(json.loads(hello["target"])))
    connection.send_bytes(b'{"ready": true}')
    while True:
        try:
            request = json.loads(connection.recv_bytes())
        except EOFError:
            return
        try:
            if request["op"] == "build":
                reply = bench.build(request["job"], request["module"])
            else:
                best = request["best_latency_s"]
                reply = bench.run(request["job"], float("inf") if best is None else best, config)
        except Exception as error:  # a candidate may fail in any way; its record says how
            text = str(error).strip() or type(error).__name__
            reply = {"error": text[-_MESSAGE_CHARS:]}
        connection.send_bytes(json.dumps(reply).encode())


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C means
    _die_with_parent()
    serve(Connection(int(sys.argv[1])))
