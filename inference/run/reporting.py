"""Report of a tuning run: printed, written as files, and followed by the next steps."""

from __future__ import annotations

from dataclasses import replace

from ...compiler.tvm_compat import available_cores
from ...terminal import say
from .closing import megabytes, next_steps
from .opened import Opened
from .result import TuneResult
from .tuning_run import TuningRun


def reported(run: TuningRun, result: TuneResult, opened: Opened) -> TuneResult:
    """Prints and writes the result with the length of the run, and returns it."""
    console, config = run.console, run.config
    with run.watch.stage("report"):
        # A top-level import would delay the searches.
        from ..report.plots import drawn_early
        from ..report.terminal import print_profile, print_report
        from ..report.write import write_report

        drawn = drawn_early(result)
    result = replace(
        result,
        total_s=run.elapsed_s(),
        stage_s=run.watch.seconds,
        cores=run.timeline.stop(),
        available_cores=available_cores(),
        peak_mb=megabytes(run.memory.stop()),
    )
    print_report(result, console)
    if config.profile:
        print_profile(result, console)
    for path in write_report(result, config.folder, drawn):
        say(console, f"wrote {path}")
    for line in next_steps(result, config.export, opened, run.predicted):
        say(console, line)
    return result
