"""Steps and stages of a campaign: their commands, their inputs, and their state by their results."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .workspace import Workspace

Missing = Callable[[Mapping[str, Any]], str]
"""Function that describes the missing parts of a result, "" for a complete one."""


def nothing(result: Mapping[str, Any]) -> str:
    """Missing parts of a result that is never incomplete."""
    return ""


def runs_left_out(result: Mapping[str, Any]) -> str:
    """Missing parts of a result with a list `left_out` of runs that had no time."""
    left = list(result.get("left_out") or ())
    return f"{len(left)} runs, the first {left[0]}" if left else ""


@dataclass(frozen=True)
class Step:
    """One command. Its words may contain {target}, {work}, {results}, {runs}, {minutes} and {data:NAME}."""

    name: str
    words: tuple[str, ...]
    """Arguments of `python -m`."""
    benchmark: str
    """Folder of its result."""
    minutes: float
    """Estimated, not measured, time on the machine in all calls."""
    variant: str = ""
    missing: Missing = nothing
    dry: tuple[str, ...] = ()
    """Replaces `words` in a rehearsal: small sizes, no GPU."""
    dry_benchmark: str = ""
    """Replaces `benchmark` in a rehearsal, if not empty."""
    dry_missing: Missing | None = None
    """Replaces `missing` in a rehearsal."""
    least_s: float = 90.0
    """Seconds that must be left for it to begin."""
    device: str = "cuda"
    """Machine that its result must come from: "cuda", "cpu-16", or "any" if nothing is timed."""

    @property
    def needs_gpu(self) -> bool:
        """Whether it runs on a GPU. A training on a GPU has the device "any"."""
        return self.device == "cuda" or any("accelerator=gpu" in word for word in self.words)

    def state(self, workspace: Workspace) -> str | None:
        """Missing parts of its result, "" if it is complete; None without a result."""
        benchmark, missing = self.benchmark, self.missing
        if workspace.dry_run:
            benchmark, missing = self.dry_benchmark or benchmark, self.dry_missing or missing
        lacking = [missing(one.values) for one in workspace.found(benchmark, self.variant, self.device)]
        return min(lacking, key=len) if lacking else None

    def is_done(self, workspace: Workspace) -> bool:
        """Whether its result is complete."""
        return self.state(workspace) == ""

    def datasets(self, dry_run: bool = False) -> list[str]:
        """Names of datasets that it reads."""
        return re.findall(r"\{data:([^}]*)\}", " ".join(self.dry if dry_run else self.words))

    def lacks(self, workspace: Workspace) -> list[str]:
        """Datasets that it reads and that do not exist."""
        names = self.datasets(workspace.dry_run)
        return [name for name in names if not any(workspace.dataset(name).glob("records-*.parquet"))]

    def grown(self) -> list[str]:
        """Names of datasets that it creates or extends."""
        return re.findall(r"\{work\}/data/(\S+)", " ".join(self.words))

    def command(self, workspace: Workspace, stage: str, minutes: float, target: str) -> list[str]:
        """Arguments of `python`."""
        runs = workspace.work / "runs" / f"{stage}-{self.name}"
        known = {
            "target": target,
            "work": str(workspace.work),
            "results": str(workspace.work / "results"),
            "runs": str(runs),
            "minutes": f"{minutes:.2f}",
        }

        def filled(word: str) -> str:
            for name, value in known.items():
                word = word.replace(f"{{{name}}}", value)
            head, mark, rest = word.partition("{data:")
            name, _, end = rest.partition("}")
            return f"{head}{workspace.dataset(name)}{end}" if mark else word

        return ["-m", *map(filled, self.dry if workspace.dry_run else self.words)]


@dataclass(frozen=True)
class Stage:
    """Steps that answer one question."""

    name: str
    question: str
    steps: tuple[Step, ...]
    checkpoints: tuple[str, ...] = ()
    """Folders in `checkpoints/` that it reads."""

    def is_done(self, workspace: Workspace) -> bool:
        """Whether all of its steps are done."""
        return all(step.is_done(workspace) for step in self.steps)

    def open_steps(self, workspace: Workspace) -> list[Step]:
        """Steps that are not done, in order."""
        return [step for step in self.steps if not step.is_done(workspace)]
