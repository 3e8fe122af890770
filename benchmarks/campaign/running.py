"""One call on a lent machine: runs the next open steps within its minutes, and packs their results."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from ..checkouts import KEPT_COMMIT, commit_of
from ..common import ROOT
from . import crate
from .environment import check_machine, cuda_environment, make_environment
from .limits import CampaignError
from .stages import STAGES
from .step import Stage, Step
from .workspace import PARTS, Workspace

DRY_RUN_TARGET = "nvidia/nvidia-h100"
PACK_S = 25.0
"""Seconds reserved for packing at the end of a call."""
PATIENCE_S = 8.0
"""Seconds that a step has to end after SIGINT."""
SPARE = 0.9
"""Share of the remaining time that a step may use; the rest is for the work that it has begun."""


class Stopwatch:
    """Duration of each step, and the time left in a call."""

    def __init__(self, minutes: float) -> None:
        self.started = time.monotonic()
        self.deadline = self.started + 60 * minutes

    @property
    def left_s(self) -> float:
        """Seconds until the deadline."""
        return self.deadline - time.monotonic()

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Prints when a step begins, and how long it took."""
        begin = time.monotonic()
        print(f"[{begin - self.started:6.1f} s] {name}", flush=True)
        yield
        now = time.monotonic()
        print(f"[{now - self.started:6.1f} s] {name}: took {now - begin:.1f} s", flush=True)


@dataclass(frozen=True)
class Call:
    """Settings of one call."""

    workspace: Workspace
    out: Path
    minutes: float
    bundle: Path | None = None
    environment: Path = Path("/tmp/foretune-env")
    target: str | None = None
    stage: str | None = None


def next_steps(call: Call) -> int:
    """Runs open steps until the time is over, packs their work, and returns the exit status.

    If a step fails, its name is printed and the next step runs. Raises CampaignError if no step is open.
    """
    workspace, watch = call.workspace, Stopwatch(call.minutes)
    stages = [STAGES[call.stage]] if call.stage else list(STAGES.values())
    opened = [step for stage in stages for step in stage.open_steps(workspace)]
    if not opened:
        raise CampaignError("every step has its result; `plan` lists them")
    check_machine(workspace.dry_run or not any(step.needs_gpu for step in opened))
    python = _python(call, watch)
    state = workspace.read_state()
    state = {
        "calls": state.get("calls", 0) + 1,
        "commit": state.get("commit") or commit_of(ROOT) or "unknown",
    }
    workspace.write_state(state)
    environment = {**cuda_environment(python), KEPT_COMMIT: state["commit"], "PYTHONUNBUFFERED": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(
        [str(ROOT), str(ROOT / ".typing"), *filter(None, [environment.get("PYTHONPATH")])]
    )
    failed: list[str] = []
    told: list[int] = []
    try:
        for stage, step in _open(stages, workspace):
            room_s = watch.left_s - PACK_S
            if room_s < min(step.least_s, 60 * call.minutes / 3):
                break
            if lacking := step.lacks(workspace):
                print(f"{stage.name}/{step.name}: waits for {', '.join(lacking)}", flush=True)
                continue
            take_up(step, workspace)
            words = step.command(
                workspace, stage.name, room_s * SPARE / 60, call.target or _target(workspace)
            )
            with watch.step(f"{stage.name}/{step.name}: python {' '.join(words)}"):
                status = run_until([str(python), *words], environment, watch.deadline - PACK_S, told)
            if told or watch.left_s < PACK_S:
                break
            if status:
                failed.append(f"{stage.name}/{step.name} (status {status})")
    finally:
        with watch.step("packing"):
            facts = {**state, "dry_run": workspace.dry_run}
            left = crate.pack(workspace.work, PARTS, call.out, facts)
    for name in left:
        print(f"no room for {name}", flush=True)
    print(summary(stages, workspace))
    print(f"fetch the files of {call.out} and land them: python benchmarks/gpu_campaign.py land FOLDER")
    if failed:
        print(f"failed: {', '.join(failed)}; their messages are above", file=sys.stderr)
    return 1 if failed else 0


def take_up(step: Step, workspace: Workspace) -> None:
    """Copies the landed datasets that a step extends, if the work of earlier calls was not carried."""
    for name in step.grown():
        growing, landed = workspace.work / "data" / name, workspace.data / name
        if landed.is_dir() and not growing.is_dir():
            shutil.copytree(landed, growing)


def _open(stages: Sequence[Stage], workspace: Workspace) -> Iterator[tuple[Stage, Step]]:
    """Steps that are still open when they are next."""
    for stage in stages:
        for step in stage.steps:
            if not step.is_done(workspace):
                yield stage, step


def _target(workspace: Workspace) -> str:
    return DRY_RUN_TARGET if workspace.dry_run else "cuda"


def _python(call: Call, watch: Stopwatch) -> Path:
    """Python of the bundle's environment, or this Python without a bundle."""
    if call.bundle is None:
        if importlib.util.find_spec("foretune") is None and not (ROOT / ".typing" / "foretune").exists():
            raise CampaignError(
                "foretune is not installed for this Python; give --bundle, or install it first"
            )
        return Path(sys.executable)
    with watch.step("environment"):
        return make_environment(call.bundle, call.environment)


def summary(stages: Sequence[Stage], workspace: Workspace) -> str:
    """One line for each step: done, begun with its missing parts, or open."""
    lines = []
    for stage in stages:
        for step in stage.steps:
            state = step.state(workspace)
            told = "open" if state is None else f"begun, lacks {state}" if state else "done"
            lines.append(f"{stage.name}/{step.name}: {told}")
    return "\n".join(lines)


def run_until(
    command: Sequence[str], environment: dict[str, str], deadline: float, told: list[int] | None = None
) -> int:
    """Runs a command that stops cleanly at SIGINT, and returns its exit status.

    Sends SIGINT at the deadline, or when this process receives SIGINT or SIGTERM, and SIGKILL some seconds
    later. Adds the signals that this process received to `told`.
    """
    if importlib.util.find_spec("foretune") is None:  # a module without dependencies
        sys.path.append(str(ROOT / ".typing"))
    from foretune.compiler.host.lifeline import start_tied

    process = start_tied(command, env=environment)
    signals = [signal.SIGINT, signal.SIGTERM]

    def pass_on(number: int, frame: FrameType | None) -> None:
        nonlocal deadline
        deadline = min(deadline, time.monotonic())
        if told is not None:
            told.append(number)

    before = [signal.signal(number, pass_on) for number in signals]
    try:
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.2)
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill_group()
        return process.wait()
    finally:
        for number, handler in zip(signals, before, strict=True):
            signal.signal(number, handler)
