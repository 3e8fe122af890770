"""Rules by which the tasks of a run reuse each other: limits of children and of those that they reuse."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...compiler.task import Task
from .donors import Donor
from .selection import ReuseSelection


@dataclass(frozen=True)
class ChildBudget:
    """Limits of the rounds of a task that has a parent."""

    programs: int = 8
    """Candidates measured in a round at most, the adapted ones among them."""
    starts: int = 4
    """Adapted programs that it begins with at most; with 0 it waits for its parent and takes nothing over."""
    rounds: int = 1
    """Rounds, of which the first has the adapted programs."""
    total: int | None = None
    """Candidates measured in all, where rounds go on until the search has no more; None counts `rounds`."""
    reused: int = 0
    """Programs of the parent that each round hands to the strategy as they are."""
    search: bool = True
    """Whether others are searched for. Where not, the next adapted ones follow until one runs."""
    beside: int = 0
    """Candidates of start sources, such as templates, measured too by a child that is not searched for."""
    small_programs: int | None = None
    """Candidates of a task of a small share in place of `programs`; None makes no difference."""
    heavy: ChildBudget | None = None
    """Limits of a heavy task in place of these; None makes no difference."""


@dataclass(frozen=True)
class SourceLimits:
    """Limits of the tasks that others reuse."""

    rounds: int | None = None
    """Rounds at most; None sets no limit of its own."""
    heavy_share: float = math.inf
    """Share of the network's latency from which on a task is heavy."""
    heavy_rounds: int = 1
    """Rounds of a heavy task, if its search does not end before."""


@dataclass(frozen=True)
class Selected:
    """Selection for the tasks of a run."""

    selection: ReuseSelection
    bridges: Sequence[Task] = ()
    """Tasks of weight 0 that the reuse tree may hold."""
    library: Sequence[Donor] = ()
    """Tasks of earlier runs that the reuse tree may hold, with their programs."""


class ReuseRules:
    """Rules of a run by which tasks reuse each other; by default all children have the same limits."""

    reads_sketches: ClassVar[bool] = False
    """Whether the selection is told the sketches of fast programs, which `sketch` reads."""

    def __init__(self, child: ChildBudget | None = None, limits: SourceLimits | None = None) -> None:
        """`child` are the limits of a task that has a parent, `limits` those of its parent."""
        self._child = child or ChildBudget()
        self.limits = limits or SourceLimits()

    def child(self, task: Task) -> ChildBudget:
        """Limits of a task that has a parent."""
        return self._child

    def earlier_child(self, task: Task, parent: Task) -> ChildBudget | None:
        """Limits of a task whose parent an earlier run has tuned; None leaves it to `child`."""
        return None

    def resized_by(self, task: Task, other: Task) -> float:
        """Distance of a task to the same layer at another size; inf for another layer."""
        return math.inf

    def loops(self, task: Task) -> Hashable:
        """Loops that tasks share if they differ in element-wise steps alone; None if it shares none."""
        return None

    def known_programs(self, task: Task) -> Mapping[str, float]:
        """Latency in seconds by trace of what earlier runs measured of a task."""
        return {}

    def sketch(self, task: Task, trace: str) -> Hashable:
        """Sketch of a program of a task; None where it cannot be read."""
        return None
