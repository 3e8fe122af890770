"""Layers by default rules, by templates and by oneDNN, timed in turns on one and on all cores."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

import tvm
from foretune.compiler.replay import replay, trace_to_json
from foretune.compiler.templates.cpu.programs import AnyTemplate, template_programs
from foretune.compiler.tvm_compat import make_tune_context
from foretune.dataset.measure import MeasureConfig
from foretune.dataset.measure.worker.process import WorkerLostError, WorkerProcess, WorkerSpec
from foretune.dataset.records.schema import FailureKind
from foretune.inference.deploy.runners import RunnerError
from foretune.inference.deploy.timing import time_in_turns
from foretune.inference.deploy.turn import Turn
from tvm.target import Target

from .shapes import Convolution, Linear, flops_of

LIMIT_S = 600.0
"""Seconds allowed for one request; a search needs most."""

TURNS, TURN_S = 5, 0.1
"""Turns of each contestant, and seconds of one turn."""

RULES, TEMPLATES, ONEDNN = "default_rules", "templates", "onednn"


class Process:
    """Process of `contestants`; `ask` raises RunnerError."""

    def __init__(self, role: str, target: Target, threads: int) -> None:
        count = str(threads)
        self._worker = WorkerProcess(
            WorkerSpec(
                *(role, target, MeasureConfig()),
                environment={"TVM_NUM_THREADS": count, "OMP_NUM_THREADS": count, "MKL_NUM_THREADS": count},
                settings={"threads": threads} if role == ONEDNN else {},
                module="benchmarks.templates.contestants",
                torch=True,
                shares_imports=False,
            )
        )
        self._worker.wait_ready()

    def ask(self, op: str, **request: Any) -> dict[str, Any]:
        """The reply to a request."""
        self._worker.send({"op": op, **request})
        try:
            reply = self._worker.receive(LIMIT_S, FailureKind.RUN_TIMEOUT)
        except WorkerLostError as gone:
            raise RunnerError(str(gone)) from gone
        if "error" in reply:
            raise RunnerError(reply["error"])
        return reply

    def close(self) -> None:
        self._worker.kill()


class Call(NamedTuple):
    """One loaded call of a process, to be timed in turns."""

    process: Process
    name: str

    def turn(self, seconds: float) -> Turn:
        """See Timed."""
        return Turn(**self.process.ask("turn", name=self.name, seconds=seconds))

    def close(self) -> None:
        """See Timed; its process continues."""


class Found(NamedTuple):
    """Outcome of a search."""

    module: str | None = None
    """Program as TVM's JSON, or None if no program runs."""
    seconds: float = 0.0
    detail: str = ""
    error: str = "the search found no program that runs"


class Ring:
    """Processes of the contestants for a number of threads; they start with the first layer."""

    def __init__(self, target: Target, threads: int) -> None:
        self.target, self.threads = Target({**target.export(), "num-cores": threads}), threads
        self._started = ExitStack()

    @cached_property
    def tvm(self) -> Process:
        """Process that runs TVM's programs."""
        return self._process("tvm")

    @cached_property
    def onednn(self) -> Process:
        """Process that runs oneDNN."""
        return self._process(ONEDNN)

    def close(self) -> None:
        """Ends the processes."""
        self._started.close()

    def _process(self, role: str) -> Process:
        process = Process(role, self.target, self.threads)
        self._started.callback(process.close)
        return process

    def searched(self, layer: Linear | Convolution, dtype: str, trials: int) -> Found:
        """The fastest of a number of programs from stock MetaSchedule's search."""
        try:
            found = self.tvm.ask("search", task=tvm.ir.save_json(layer.task(dtype)), trials=trials)
        except RunnerError as error:
            return Found(error=str(error))
        return Found(found["module"], found["seconds"], f"{trials} trials")

    def measured(self, layer: Linear | Convolution, dtype: str, found: Found, count: int) -> dict[str, Any]:
        """Peaks by instruction, and one row per contestant.

        Args:
            found: program of the default rules.
            count: number of templates; the fastest one takes part.
        """
        for process in (self.tvm, self.onednn):
            process.ask("clear")
        module = layer.task(dtype)
        peaks = self.tvm.ask("peak", dtype=dtype)
        calls: dict[str, tuple[Call, float, str]] = {}
        errors: dict[str, str] = {}
        loads: dict[str, Callable[[], tuple[Call, float, str]]] = {
            RULES: lambda: self._by_rules(found),
            TEMPLATES: lambda: self._by_template(module, count),
            ONEDNN: lambda: self._by_onednn(layer, dtype),
        }
        for name, load in loads.items():
            try:
                calls[name] = load()
            except RunnerError as error:
                errors[name] = str(error)
        timings = time_in_turns([call for call, *_ in calls.values()], repeats=TURNS, seconds=TURN_S)
        flops, peak = flops_of(module), max(peaks.values())
        rows: list[dict[str, Any]] = [{"contestant": name, "error": said} for name, said in errors.items()]
        for (name, (_, ready_s, detail)), timing in zip(calls.items(), timings, strict=True):
            if not timing.samples_s:
                rows.append({"contestant": name, "error": timing.error or "no turn"})
                continue
            latency_s = statistics.median(timing.samples_s)
            rows.append(
                {
                    **{"contestant": name, "detail": detail, "ready_s": ready_s, "latency_s": latency_s},
                    **{"share_of_peak": flops / latency_s / 1e9 / peak, "disturbed": timing.disturbed},
                    "error": "",
                }
            )
        return {"peak_gflops": peaks, "rows": rows}

    def _by_rules(self, found: Found) -> tuple[Call, float, str]:
        if found.module is None:
            raise RunnerError(found.error)
        self.tvm.ask("load", name=RULES, module=found.module)
        return Call(self.tvm, RULES), found.seconds, found.detail

    def _by_template(self, module: tvm.IRModule, count: int) -> tuple[Call, float, str]:
        began = time.perf_counter()
        best: tuple[float, Call, AnyTemplate] | None = None
        for number, (template, program) in enumerate(scheduled(module, self.target, count)):
            call = Call(self.tvm, f"template {number}")
            self.tvm.ask("load", name=call.name, module=tvm.ir.save_json(program))
            latency_s = call.turn(TURN_S).latency_s
            if best is None or latency_s < best[0]:
                best = latency_s, call, template
        if best is None:
            raise RunnerError("no template replays")
        return best[1], time.perf_counter() - began, best[2].instruction.name

    def _by_onednn(self, layer: Linear | Convolution, dtype: str) -> tuple[Call, float, str]:
        began = time.perf_counter()
        version = self.onednn.ask("load", name=ONEDNN, dtype=dtype, layer=asdict(layer))["version"]
        return Call(self.onednn, ONEDNN), time.perf_counter() - began, version


def scheduled(module: tvm.IRModule, target: Target, count: int) -> Iterator[tuple[AnyTemplate, tvm.IRModule]]:
    """The `count` most promising templates of a task that replay, and their programs."""
    context = make_tune_context(module, target, seed=0)
    for template, program in islice(template_programs(module, target, None), count):
        candidate = replay(context, trace_to_json(program.trace))
        if candidate is None:
            print(f"  {template} does not replay", flush=True)
            continue
        yield template, candidate.sch.mod
