"""Rules for reuse between the tasks of a run: limits of children and of the tasks that they reuse."""

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
    """Maximum number of candidates measured in a round, including the adapted programs."""
    starts: int = 4
    """Maximum number of adapted programs that start the search. With 0, a child waits and reuses nothing."""
    rounds: int = 1
    """Rounds of the child. The first round includes the adapted programs."""
    total: int | None = None
    """Candidates measured in all rounds, which go on until the search is exhausted; None counts `rounds`."""
    reused: int = 0
    """Programs of the parent that each round passes to the strategy unchanged."""
    search: bool = True
    """Whether the child also searches. Without a search, it tries further adapted programs until one runs."""
    beside: int = 0
    """Candidates of start sources, such as templates, that a child without a search measures in addition."""
    templates_alone: bool = False
    """Whether a task with templates measures only these."""
    small_programs: int | None = None
    """Replaces `programs` for a task with a small share; None keeps `programs`."""
    heavy: ChildBudget | None = None
    """Replaces these limits for a heavy task; None keeps them."""


@dataclass(frozen=True)
class SourceLimits:
    """Limits of the tasks without a parent, which other tasks may reuse."""

    rounds: int | None = None
    """Maximum number of rounds; None sets no limit."""
    heavy_share: float = math.inf
    """Share of the network's latency at which a task becomes heavy."""
    heavy_rounds: int = 1
    """Rounds of a heavy task, unless its search ends earlier."""
    templates_first: bool = False
    """Whether the first round of a task without a parent measures only its templates, if it has some."""
    own_share: float = 0.0
    """Share of the network's latency, in even shares, that a task needs for each round that it had, without
    the tasks that wait for it; `heavy_share` is always enough, and 0 sets no limit."""


@dataclass(frozen=True)
class Selected:
    """Selection for the tasks of a run."""

    selection: ReuseSelection
    bridges: Sequence[Task] = ()
    """Tasks of weight 0 that the reuse tree may contain."""
    library: Sequence[Donor] = ()
    """Tasks of earlier runs that the reuse tree may contain, with their programs."""


class ReuseRules:
    """Rules for reuse between the tasks of a run. By default all children have the same limits."""

    reads_sketches: ClassVar[bool] = False
    """Whether the selection receives the sketches of fast programs, which `sketch` reads."""

    def __init__(self, child: ChildBudget | None = None, limits: SourceLimits | None = None) -> None:
        """`child` limits a task that has a parent, `limits` its parent."""
        self._child = child or ChildBudget()
        self.limits = limits or SourceLimits()

    def child(self, task: Task) -> ChildBudget:
        """Limits of a task that has a parent."""
        return self._child

    def earlier_child(self, task: Task, parent: Task) -> ChildBudget | None:
        """Limits of a task whose parent an earlier run tuned; None uses the limits of `child`."""
        return None

    def templates(self, share: float | None) -> int | None:
        """Maximum number of templates of a child that measures only these; None sets no limit.

        `share` is the expected share of the network's latency, or None if it is not known.
        """
        return None

    def resized_by(self, task: Task, other: Task) -> float:
        """Distance of a task to the same layer at another size; inf for a different layer."""
        return math.inf

    def loops(self, task: Task) -> Hashable:
        """Loops shared by tasks that differ only in element-wise steps; None if the task shares no loops."""
        return None

    def known_programs(self, task: Task) -> Mapping[str, float]:
        """Latencies in seconds, by trace, that earlier runs measured for a task."""
        return {}

    def sketch(self, task: Task, trace: str) -> Hashable:
        """Sketch of a program of a task; None if it cannot be read."""
        return None
