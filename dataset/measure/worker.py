"""The measuring process: imports TVM once, then builds by JIT and times whatever it is sent.

It is started by `WorkerPool` as `python -m foretune.dataset.measure.worker FD` and talks JSON over the
connection that it inherits as FD. A candidate that crashes or hangs takes this process with it and nothing
else.
"""

from __future__ import annotations

import ctypes
import json
import signal
import statistics
import sys
import time
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
        self._built: dict[int, tuple[Any, Any]] = {}
        self._inputs_for: str = ""
        self._inputs: list[tvm.runtime.Tensor] = []

    def build(self, job: int, module: str) -> dict[str, Any]:
        """Compiles a scheduled module in memory and resolves its entry, which triggers the JIT."""
        start = time.perf_counter()
        mod = tvm.ir.load_json(module)
        executable = tvm.compile(mod, target=self.target)
        library = executable.jit() if hasattr(executable, "jit") else executable
        entry = library["main"]
        self._built[job] = (library, (entry, argument_buffers(mod)))
        return {"build_s": time.perf_counter() - start}

    def run(self, job: int, best_latency_s: float, config: MeasureConfig) -> dict[str, Any]:
        """Times a built candidate as `MeasureConfig` says and forgets it."""
        library, (entry, buffers) = self._built.pop(job)
        inputs = self._arrays(buffers)
        start = time.perf_counter()
        entry(*inputs)
        self.device.sync()
        warm_up_s = time.perf_counter() - start
        if warm_up_s > config.slow_factor * best_latency_s:
            return {"run_secs": [warm_up_s], "cut_short": True, "run_s": warm_up_s}
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
