"""CPU seconds per GPU record, and core use of a generation run: without a GPU, by dry runs.

    python -m benchmarks.gpu_generation
    python -m benchmarks.gpu_generation --dtypes float32 -- program_sampling.sampler=random

Each data type has one run of `foretune generate executor=dry_run` for an H100: programs are sampled, lowered
and compiled as for a device, and only the timing is left out. CPU seconds cover all processes, from the start
of the command to its end. Words after a `--` are settings of foretune generate.

`busy` is the share of the cores that the run used, by the CPU time of its processes after their start. It is
low if other programs use the cores. `wanted` is the share that the run would have used on an idle machine:
its runnable processes, at most one per core, counted five times a second.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psutil
from foretune.compiler.host.lifeline import start_tied
from foretune.compiler.host.threads import available_cores
from foretune.dataset.generation.runs import read_runs
from foretune.dataset.measure.worker.toolchain import cuda_environment

from .common import argument_parser, start, this_machine, write_result

TARGET = "nvidia/nvidia-h100"
DTYPES = ("float32", "float16")
SETTINGS = (
    *("tasks=400", "records_per_task=128", "per_round=32", "datasheet=false"),
    *("task_sampling.min_flops=1e6", "task_sampling.max_flops=2e10"),
)
_COUNT_EVERY_S = 0.2
_AFTER_DEADLINE_S = 240.0


class Counted:
    """Runnable processes of a command, at most one per core, and the time of its first lines."""

    def __init__(self, command: Sequence[str]) -> None:
        self.began = time.monotonic()
        self.counts: list[tuple[float, int]] = []
        self.lines: list[tuple[float, str]] = []
        self._process = start_tied(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1
        )
        self._counting = threading.Thread(target=self._count, daemon=True)
        self._counting.start()

    def wait(self, timeout_s: float) -> int:
        timer = threading.Timer(timeout_s, self._process.kill)
        timer.start()
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append((time.monotonic() - self.began, line.rstrip()))
            print(f"  {line.rstrip()}", flush=True)
        timer.cancel()
        status = self._process.wait()
        self._counting.join()
        return status

    def first(self, text: str) -> float | None:
        """Seconds until the first line that contains a text."""
        return next((seconds for seconds, line in self.lines if text in line), None)

    def wanted(self, since_s: float, until_s: float) -> float:
        """Share of the cores that runnable processes would have used in a part of the run."""
        counts = [count for seconds, count in self.counts if since_s <= seconds <= until_s]
        return statistics.fmean(min(count, available_cores()) for count in counts) / available_cores()

    def _count(self) -> None:
        command = psutil.Process(self._process.pid)
        while self._process.poll() is None:
            time.sleep(_COUNT_EVERY_S)
            count = 0
            try:
                for process in (command, *command.children(recursive=True)):
                    count += _runnable(process)
            except psutil.Error:
                continue
            self.counts.append((time.monotonic() - self.began, count))


def _runnable(process: psutil.Process) -> int:
    try:
        return process.status() in (psutil.STATUS_RUNNING, psutil.STATUS_DISK_SLEEP)
    except psutil.Error:  # it has just ended
        return 0


def children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def generate(dtype: str, minutes: float, words: Sequence[str]) -> dict[str, Any]:
    """Row of one run."""
    with tempfile.TemporaryDirectory() as folder:
        dataset = Path(folder, "set")
        settings = [f"task_sampling.dtype={dtype}", f"budget_s={60 * minutes}", *SETTINGS, *words]
        command = ["-m", "foretune", "generate", f"target={TARGET}", "executor=dry_run"]
        before = children_cpu_s()
        counted = Counted([*command, f"dataset={dataset}", *settings])
        status = counted.wait(60 * minutes + _AFTER_DEADLINE_S)
        cpu_s = children_cpu_s() - before
        if status:
            raise SystemExit(f"foretune generate ended with status {status}")
        (run,) = read_runs(dataset)
    # The run's own clock begins at its first line of progress, minus the seconds that this line reports.
    began_s = next(
        seconds - float(line.partition(" s:")[0]) for seconds, line in counted.lines if " s:" in line
    )
    row = {
        "dtype": dtype,
        "settings": settings,
        "cpu_s": cpu_s,
        "cpu_s_per_valid_record": cpu_s / max(1, run.valid),
        "busy": 1 - run.core_shares["idle"],
        "wanted": counted.wanted(began_s, began_s + run.seconds),
        "first_line_s": counted.lines[0][0],
        "first_progress_s": counted.first("records,"),
        "run": asdict(run),
    }
    print(
        f"{dtype}: {row['cpu_s_per_valid_record']:.2f} CPU s per valid record ({run.valid}), cores "
        f"{row['busy']:.0%} busy, {row['wanted']:.0%} wanted"
    )
    return row


def main() -> None:
    parser = argument_parser(__name__)
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=list(DTYPES))
    parser.add_argument("--minutes", type=float, default=4.0, help="of each run (%(default)s)")
    parser.add_argument("--variant", default="", help="name of the result, if not the default's")
    parser.add_argument("words", nargs="*", help="settings of foretune generate, after a --")
    arguments = parser.parse_args()

    begun = start()
    result = {
        "cores": available_cores(),
        "compiler": cuda_environment("auto")["TVM_CUDA_COMPILE_MODE"],
        "runs": [generate(dtype, arguments.minutes, arguments.words) for dtype in arguments.dtypes],
    }
    write_result(
        "gpu_generation", result, begun, this_machine(), results=arguments.out, variant=arguments.variant
    )


if __name__ == "__main__":
    main()
