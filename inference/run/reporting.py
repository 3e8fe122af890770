"""Report of a tuning run: printed, written as files, and followed by the next steps."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tvm.target import Target

from ...compiler.targets import is_cpu
from ...compiler.tvm_compat import available_cores, target_cores
from ...terminal import say
from ..database.predicted_schedules import PredictedSchedules
from ..search.tuner import NetworkTuner
from .opened import Opened
from .result import TuneResult
from .tuning_run import TuningRun

UNTUNED_SHARE = 0.1
"""Seconds after which no further task is timed without a schedule for the report, over `budget_s`."""


def reported(run: TuningRun, result: TuneResult, opened: Opened) -> TuneResult:
    """Prints and writes the result with the length of the run, and returns it."""
    console, config = run.console, run.config
    with run.watch.stage("report"):
        # A top-level import would delay the searches.
        from ..report.plots import drawn_early
        from ..report.terminal import print_profile, print_report
        from ..report.write import write_report

        drawn = drawn_early(result)
    peak_bytes = run.memory.stop()
    result = replace(
        result,
        total_s=run.elapsed_s(),
        stage_s=run.watch.seconds,
        cores=run.timeline.stop(),
        available_cores=available_cores(),
        peak_mb=None if peak_bytes is None else peak_bytes / 1e6,
    )
    print_report(result, console)
    if config.profile:
        print_profile(result, console)
    for path in write_report(result, config.folder, drawn):
        say(console, f"wrote {path}")
    for line in _next_steps(result, config.export, opened, run.predicted):
        say(console, line)
    return result


def untuned_timed(run: TuningRun, tuner: NetworkTuner) -> dict[str, float]:
    """Latencies for the report that the search left unmeasured; see `NetworkTuner.time_untuned`."""
    if not tuner.leaves_untuned:
        return {}
    budget_s, began = run.config.budget_s, time.monotonic()
    limit_s = math.inf if budget_s is None else UNTUNED_SHARE * budget_s
    with run.watch.stage("time the untuned tasks"), run.console.status("timing the untuned tasks"):
        return tuner.time_untuned(lambda: time.monotonic() - began < limit_s)


def how_to_run(library: Path, target: Target) -> list[str]:
    """Example code that runs the exported network, with Foretune and without it."""
    on_cpu, path = is_cpu(target), str(library)
    device = "tvm.cpu()" if on_cpu else f"tvm.runtime.device({target.kind.name!r})"
    stock = f"relax.VirtualMachine(tvm.runtime.load_module({path!r}), {device})['main'](*inputs)"
    if not on_cpu:
        return [f"wrote {library}: {stock}"]
    return [
        f"wrote {library}: foretune.load({path!r})(*inputs)",
        f"  as fast by stock TVM with TVM_NUM_THREADS={target_cores(target)} TVM_BIND_THREADS=0 set: {stock}",
    ]


def _next_steps(
    result: TuneResult, export: Path | None, opened: Opened, predicted: PredictedSchedules | None
) -> Iterator[str]:
    """Lines about the use of the exported library and of the schedules."""
    if export is not None and not result.networks and result.outputs_match is not False:
        yield from how_to_run(export, opened.target)
    folders = {"schedules": opened.database.folder}
    if predicted is not None:
        folders["predicted schedules, not measured,"] = predicted.folder
    for what, folder in folders.items() if not result.simulated else ():
        yield f"{what} for stock TVM: ms.database.JSONDatabase(work_dir={str(folder)!r})"
