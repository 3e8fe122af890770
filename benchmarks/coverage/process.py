"""One network by `foretune tune`, within limits of time and memory."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
from foretune.compiler.host.lifeline import TiedProcess, start_tied

from ..checkouts import commit_of, tune_command
from ..common import ROOT, read_json
from .networks import FACTORY, Entry

POLL_S = 0.2

TO_TASKS = (
    *("torch.export", "conversion to Relax", "lowering to TIR", "check that TVM builds it"),
    "run once before the search",
)
"""Steps of "network to tasks", whose seconds the row has, too."""

STEPS = {
    "cannot build it": "load",
    "does not run on inputs": "load",
    "without any tensor": "load",
    "cannot take apart": "load",
    "torch.export failed": "export",
    "conversion to Relax failed": "conversion",
    "lowering to TIR failed": "lowering",
    "TVM cannot build the network": "compile",
    "random numbers": "load",
    "after its conversion": "outputs",
    "after tuning": "outputs",
}
"""Failed step, identified by the text of its error."""

TIME, MEMORY, CRASH = "time", "memory", "crash"
"""Steps of networks that ended without an error of foretune's."""

UNSEARCHED = ("search", "no task was searched within budget_s")
"""Step and cause for a network that has tasks and whose compilation used no schedule."""


def sweep_one(
    name: str, entry: Entry, overrides: Sequence[str], *, limit_s: float, limit_mb: float
) -> dict[str, Any]:
    """The row of a network: whether it passed, the failed step and its cause, seconds, memory, tasks."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        log, report = Path(scratch) / "log", Path(scratch) / "report" / "report.json"
        words = [
            *network_words(name, entry),
            f"output={report.parent}",
            f"database={scratch}/found",
            *overrides,
        ]
        with log.open("w") as written:
            process = start_tied(
                [sys.executable, *tune_command(ROOT), *words],
                cwd=scratch,
                env=_environment(),
                stdout=written,
                stderr=subprocess.STDOUT,
            )
            stopped, peak_mb = _watched(process, limit_s, limit_mb)
        found = of_report(read_json(report)) if report.is_file() else {}
        step, cause = stopped or of_end(process.returncode, log.read_text(errors="replace"))
        if not step and is_unsearched(found):
            step, cause = UNSEARCHED
    return {
        "network": name,
        "zoo": entry.zoo,
        "family": entry.family,
        "passed": not step,
        "step": step,
        "cause": cause,
        "seconds": time.monotonic() - began,
        "peak_mb": peak_mb,
        "commit": commit_of(ROOT),
        **found,
    }


def network_words(name: str, entry: Entry) -> list[str]:
    """Overrides of `foretune tune` that name the network and its inputs."""
    return [f"network={FACTORY}", f"kwargs={{name:{name}}}", f"inputs={_hydra(list(entry.inputs))}"]


def of_end(status: int, log: str) -> tuple[str, str]:
    """Failed step and its cause; both are empty for an end without an error."""
    if status == 0:
        return "", ""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    error = next((line.removeprefix("error: ") for line in lines if line.startswith("error: ")), "")
    if error:
        step = next((step for text, step in STEPS.items() if text in error), CRASH)
        return step, error
    cause = f"killed by signal {-status}" if status < 0 else lines[-1] if lines else f"status {status}"
    return CRASH, cause


def is_unsearched(found: Mapping[str, Any]) -> bool:
    """Whether a row has tasks and a schedule for none of them."""
    return bool(found.get("tasks")) and not found["scheduled"]


def of_report(report: Mapping[str, Any]) -> dict[str, Any]:
    """Values of `report.json` that the row contains."""
    tasks = report["tasks"]
    steps = {step: report["profile_s"][step] for step in TO_TASKS if step in report["profile_s"]}
    return {
        "stage_s": {**report["stage_s"], **steps},
        "tasks": len(tasks),
        "scheduled": sum(task["predicted"] or task["tuned_latency_s"] is not None for task in tasks),
        "recast": report["recast"],
        "max_abs_difference": report["max_abs_difference"],
        "tolerance": report["tolerance"],
    }


def _watched(process: TiedProcess, limit_s: float, limit_mb: float) -> tuple[tuple[str, str] | None, float]:
    """Reason why the process was stopped, or None if it ended, and peak memory including its children."""
    began, peak_mb = time.monotonic(), 0.0
    while process.poll() is None:
        peak_mb = max(peak_mb, _resident_mb(process.pid))
        reason = None
        if time.monotonic() - began > limit_s:
            reason = (TIME, f"not done after {limit_s:.0f} s")
        elif peak_mb > limit_mb:
            reason = (MEMORY, f"more than {limit_mb:.0f} MB")
        if reason is not None:
            process.kill_group()
            return reason, peak_mb
        time.sleep(POLL_S)
    return None, peak_mb


def _resident_mb(pid: int) -> float:
    """Resident memory of a process and its children; shared pages count in each."""
    total = 0
    try:
        main = psutil.Process(pid)
        for process in [main, *main.children(recursive=True)]:
            total += process.memory_info().rss
    except psutil.NoSuchProcess:
        pass
    return total / 1e6


def _environment() -> dict[str, str]:
    paths = [str(ROOT / ".typing"), str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, paths)))


def _hydra(value: Any) -> str:
    """A value in the syntax of Hydra's overrides, without quotes around keys."""
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{_hydra(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_hydra, value)) + "]"
    return str(value)
