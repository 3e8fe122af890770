"""Steps and stages of a campaign: what each runs, what it needs, and when it is done."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .workspace import Workspace

Missing = Callable[[Mapping[str, Any]], str]
"""Function of a result that says what it lacks, "" for a complete one."""


def nothing(result: Mapping[str, Any]) -> str:
    """For steps whose result is complete as soon as it is there."""
    return ""


def failures_or_left_out(result: Mapping[str, Any]) -> str:
    """For benchmarks that say what they had no time for."""
    left = list(result.get("left_out") or ())
    return f"{len(left)} runs, the first {left[0]}" if left else ""


@dataclass(frozen=True)
class Step:
    """One command. Words may hold {target}, {work}, {results}, {runs}, {minutes} and {data:NAME}."""

    name: str
    words: tuple[str, ...]
    """Words of `python -m`."""
    benchmark: str
    """Folder of its result."""
    minutes: float
    """Estimate of the time on the machine, all calls together. Nothing has measured it."""
    variant: str = ""
    missing: Missing = nothing
    dry: tuple[str, ...] = ()
    """Words in place of `words` in a rehearsal: small sizes, no GPU."""
    dry_benchmark: str = ""
    """Folder of the result of a rehearsal, where it is another one."""
    dry_missing: Missing | None = None
    """In place of `missing` in a rehearsal."""
    least_s: float = 90.0
    """Seconds without which it is not begun."""
    device: str = "cuda"
    """Machine that its result must be of: "cuda", "cpu-16", or "any" for what only computes."""

    @property
    def needs_gpu(self) -> bool:
        """Whether it runs on a GPU: a training there leaves a result of any machine."""
        return self.device == "cuda" or any("accelerator=gpu" in word for word in self.words)

    def state(self, workspace: Workspace) -> str | None:
        """What its result lacks, "" if it is complete; None without a result."""
        benchmark, missing = self.benchmark, self.missing
        if workspace.dry_run:
            benchmark, missing = self.dry_benchmark or benchmark, self.dry_missing or missing
        lacking = [missing(one.values) for one in workspace.found(benchmark, self.variant, self.device)]
        return min(lacking, key=len) if lacking else None

    def is_done(self, workspace: Workspace) -> bool:
        """By its result file alone."""
        return self.state(workspace) == ""

    def datasets(self, dry_run: bool = False) -> list[str]:
        """Names of datasets that it reads."""
        return re.findall(r"\{data:([^}]*)\}", " ".join(self.dry if dry_run else self.words))

    def lacks(self, workspace: Workspace) -> list[str]:
        """Datasets that it reads and that are not there."""
        names = self.datasets(workspace.dry_run)
        return [name for name in names if not any(workspace.dataset(name).glob("records-*.parquet"))]

    def grown(self) -> list[str]:
        """Names of datasets that it makes or goes on with."""
        return re.findall(r"\{work\}/data/(\S+)", " ".join(self.words))

    def command(self, workspace: Workspace, stage: str, minutes: float, target: str) -> list[str]:
        """Words of `python`."""
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
    """Folders of `checkpoints/` that it reads."""

    def is_done(self, workspace: Workspace) -> bool:
        """Whether all of its steps are."""
        return all(step.is_done(workspace) for step in self.steps)

    def open_steps(self, workspace: Workspace) -> list[Step]:
        """Steps that are not done, in order."""
        return [step for step in self.steps if not step.is_done(workspace)]
