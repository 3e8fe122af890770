"""The plan of a campaign as text: stages, what they need and take, and whether a call can carry it."""

from __future__ import annotations

import math
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from ..common import ROOT
from .limits import LIMITS, MB, CampaignError, Limits
from .running import PACK_S
from .stages import STAGES
from .step import Stage, Step
from .wheels import MANIFEST
from .workspace import Workspace

ENVIRONMENT_S = 60.0
"""Seconds that the environment may take on a fresh machine."""

START_S = 30.0
"""Seconds for the copy of a part of the bundle on the machine."""

BULK = ("data", "checkpoints")
"""Folders of the checkout whose files a stage names if it reads them."""


def plan(workspace: Workspace, bundle: Path | None = None, limits: Limits = LIMITS) -> str:
    """Stages in the order of their worth, then what the next call carries."""
    lines = ["stage/step  state  minutes (estimate)  calls  reads"]
    for stage in STAGES.values():
        lines.append(f"{stage.name}: {stage.question}")
        lines += [f"  {_line(stage, step, workspace, limits)}" for step in stage.steps]
    open_minutes = sum(
        step.minutes for stage in STAGES.values() for step in stage.open_steps(workspace) if step.needs_gpu
    )
    lines.append(
        f"open steps that need a GPU take {open_minutes:.0f} minutes by estimate, after earlier calls less"
    )
    following = next((stage for stage in STAGES.values() if not stage.is_done(workspace)), None)
    if following is None:
        return "\n".join([*lines, "every step has its result"])
    return "\n".join([*lines, *loading(following, workspace, bundle, limits)])


def _line(stage: Stage, step: Step, workspace: Workspace, limits: Limits) -> str:
    state = step.state(workspace)
    told = "not measured" if state is None else f"begun, lacks {state}" if state else "done"
    reads = [f"data/{name}" for name in step.datasets()] + [
        f"checkpoints/{name}" for name in stage.checkpoints
    ]
    waits = step.lacks(workspace)
    wait = f"; waits for {', '.join(waits)}" if waits else ""
    where = {"cuda": "GPU", "cpu-16": "16 cores", "any": "any machine"}[step.device]
    return (
        f"{step.name}  {told}  {step.minutes:.0f} min on {'a ' if step.needs_gpu else ''}{where}  "
        f"{calls(step, limits)} calls  reads {', '.join(reads) or 'nothing'}{wait}"
    )


def calls(step: Step, limits: Limits = LIMITS) -> int:
    """Calls that a step takes, the environment and packing in each."""
    return math.ceil(60 * step.minutes / (limits.call_s - ENVIRONMENT_S - PACK_S))


def loading(
    stage: Stage, workspace: Workspace, bundle: Path | None, limits: Limits = LIMITS
) -> Iterator[str]:
    """Lines on the files that travel for a stage, and the calls that carry the bundle."""
    read = {f"checkpoints/{name}" for name in stage.checkpoints}
    read |= {f"data/{name}" for step in stage.steps for name in step.datasets()}
    sizes = dict(tree())
    idle = sorted(name for name in sizes if name.split("/")[0] in BULK and _folder(name) not in read)
    whole, idle_size = sum(sizes.values()), sum(sizes[name] for name in idle)
    reads = (whole - idle_size) / MB
    yield f"next: {stage.name}. The checkout has {whole / MB:.1f} MiB, of which it reads {reads:.1f}."
    if whole > limits.sent:
        folders = sorted({_folder(name) for name in idle if name.count("/") > 1})
        yield (
            f"A call sends {limits.sent / MB:.0f} MiB at most. These folders can stay behind; "
            "git sparse-checkout disable brings them back:"
        )
        words = " ".join(f"'!/{folder}/'" for folder in folders)
        yield f"  git sparse-checkout set --no-cone '/*' {words}"
    if bundle is None:
        yield "Give --bundle to see the calls that carry the wheels."
        return
    room = limits.sent - (whole - idle_size)
    for number, load in enumerate(loads(bundle)):
        size = sum(path.stat().st_size for path in load.iterdir())
        fits = (
            ""
            if size <= room
            else f"  TOO LARGE: {room / MB:.1f} MiB are free; bundle with a smaller --part-size"
        )
        last = number == len(loads(bundle)) - 1
        then = (
            "cp -r LOAD /tmp/bundle/ && python3 benchmarks/gpu_campaign.py next --bundle /tmp/bundle "
            f"--minutes {(limits.call_s - START_S) / 60:.1f} --out OUT"
            if last
            else "mkdir -p /tmp/bundle && cp -r LOAD /tmp/bundle/"
        ).replace("LOAD", str(load))
        work = f", {_carried(workspace)}" if last else ""
        yield f"call {number + 1}: carry {load} ({size / MB:.1f} MiB){work}{fits}"
        yield f"  {then}"


def _carried(workspace: Workspace) -> str:
    """Work of earlier calls, with its size."""
    files = [path for path in workspace.work.rglob("*") if path.is_file()]
    folder = workspace.work.relative_to(ROOT) if workspace.work.is_relative_to(ROOT) else workspace.work
    return f"{folder} ({sum(path.stat().st_size for path in files) / MB:.1f} MiB)"


def loads(bundle: Path) -> list[Path]:
    """Folders of a bundle, each carried by one call. Raises CampaignError."""
    found = sorted(path.parent for path in bundle.glob(f"load-*/{MANIFEST}"))
    if not found:
        raise CampaignError(f"--bundle {bundle}: has no load-*; make one with the sub-command bundle")
    return found


def tree(root: Path = ROOT) -> Iterable[tuple[str, int]]:
    """Files of a checkout that travel, with their sizes; those that are not in the work tree are left out."""
    listed = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-coz", "--exclude-standard"], capture_output=True, text=True
    )
    names = listed.stdout.split("\0") if not listed.returncode else []
    for name in filter(None, names):
        path = root / name
        if path.is_file():
            yield name, path.lstat().st_size


def _folder(name: str) -> str:
    """First two folders of a path."""
    return "/".join(name.split("/")[:2])
