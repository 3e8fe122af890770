"""Plan of a campaign as text: inputs and time of the stages, and the files that each call carries."""

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
"""Seconds to make the environment on a fresh machine."""

START_S = 30.0
"""Seconds to copy a part of the bundle on the machine."""

BULK = ("data", "checkpoints")
"""Folders of the checkout that travel in part: a stage names the files that it reads."""


def plan(workspace: Workspace, bundle: Path | None = None, limits: Limits = LIMITS) -> str:
    """Stages, the most valuable first, then the files that the next call carries."""
    lines = ["stage/step  state  minutes (estimate)  calls  reads"]
    for stage in STAGES.values():
        lines.append(f"{stage.name}: {stage.question}")
        lines += [f"  {_line(stage, step, workspace, limits)}" for step in stage.steps]
    open_minutes = sum(
        step.minutes for stage in STAGES.values() for step in stage.open_steps(workspace) if step.needs_gpu
    )
    lines.append(f"open steps on a GPU take about {open_minutes:.0f} minutes, less the time of earlier calls")
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
    """Number of calls of a step; each one makes the environment and packs."""
    return math.ceil(60 * step.minutes / (limits.call_s - ENVIRONMENT_S - PACK_S))


def loading(
    stage: Stage, workspace: Workspace, bundle: Path | None, limits: Limits = LIMITS
) -> Iterator[str]:
    """Lines on the files that a stage needs, and on the calls that carry them."""
    read = {f"checkpoints/{name}" for name in stage.checkpoints}
    read |= {f"data/{name}" for step in stage.steps for name in step.datasets()}
    sizes = dict(tree())
    idle = sorted(name for name in sizes if name.split("/")[0] in BULK and _folder(name) not in read)
    whole, idle_size = sum(sizes.values()), sum(sizes[name] for name in idle)
    needed = whole - idle_size
    yield f"next: {stage.name}. It reads {needed / MB:.1f} of the {whole / MB:.1f} MiB of the checkout."
    if whole > limits.sent:
        folders = sorted({_folder(name) for name in idle if name.count("/") > 1})
        yield (
            f"A call sends {limits.sent / MB:.0f} MiB at most. The next command leaves out these folders; "
            "git sparse-checkout disable restores them:"
        )
        words = " ".join(f"'!/{folder}/'" for folder in folders)
        yield f"  git sparse-checkout set --no-cone '/*' {words}"
    work_folder, work_size = _work(workspace)
    if bundle is None:
        yield f"the call carries {work_folder} ({work_size / MB:.1f} MiB){_excess(work_size, needed, limits)}"
        yield "Give --bundle to list the calls that carry the wheels."
        return
    found = loads(bundle)
    for number, load in enumerate(found, 1):
        size = sum(path.stat().st_size for path in load.iterdir())
        if number < len(found):
            work, carried = "", size
            then = f"mkdir -p /tmp/bundle && cp -r {load} /tmp/bundle/"
        else:
            work, carried = f" and {work_folder} ({work_size / MB:.1f} MiB)", size + work_size
            then = (
                f"cp -r {load} /tmp/bundle/ && python3 benchmarks/gpu_campaign.py next --bundle /tmp/bundle "
                f"--minutes {(limits.call_s - START_S) / 60:.1f} --out OUT"
            )
        yield f"call {number}: carry {load} ({size / MB:.1f} MiB){work}{_excess(carried, needed, limits)}"
        yield f"  {then}"


def _excess(carried: int, checkout: int, limits: Limits) -> str:
    """Note on a call that exceeds the limit, "" if it fits; sizes in bytes."""
    room = limits.sent - checkout
    if carried <= room:
        return ""
    return (
        f"  TOO LARGE: {max(room, 0) / MB:.1f} MiB are free; bundle with a smaller --part-size, or move what "
        "the stage does not read out of the checkout"
    )


def _work(workspace: Workspace) -> tuple[Path, int]:
    """Folder with the work of earlier calls, relative to the checkout if it is in it, and its bytes."""
    files = [path for path in workspace.work.rglob("*") if path.is_file()]
    folder = workspace.work.relative_to(ROOT) if workspace.work.is_relative_to(ROOT) else workspace.work
    return folder, sum(path.stat().st_size for path in files)


def loads(bundle: Path) -> list[Path]:
    """Folders of a bundle, one for each call. Raises CampaignError for an empty bundle."""
    found = sorted(path.parent for path in bundle.glob(f"load-*/{MANIFEST}"))
    if not found:
        raise CampaignError(f"--bundle {bundle}: has no load-*; make one with the sub-command bundle")
    return found


def tree(root: Path = ROOT) -> Iterable[tuple[str, int]]:
    """Files in the work tree of a checkout that travel, with their sizes in bytes."""
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
