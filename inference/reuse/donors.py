"""Donors: tasks with measured programs that are adapted to other tasks and start their searches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Protocol, TypeAlias

from ...compiler.task import Task
from .parent import ReuseParent
from .similarity import Loops

Adapt: TypeAlias = Callable[[Task, str, Task], str | None]
"""Adapts a trace of the first task to the second task; returns None if the trace does not fit."""

OF_EACH = 2
"""Programs of a task that start other searches: its fastest, and a second one in case the first was luck."""

PLACE = 1.5
"""Distance that the second fastest program of a task adds to the distance of its fastest."""


@dataclass(frozen=True)
class Donor:
    """A task with its measured programs."""

    task: Task
    latencies_s: Mapping[str, float]
    """Latencies in seconds of the programs that ran, by trace."""

    @property
    def fastest(self) -> list[str]:
        """Traces in ascending order of latency."""
        return sorted(self.latencies_s, key=lambda trace: (self.latencies_s[trace], trace))


class StartChoice(Protocol):
    """Chooses the programs that start the search of a child."""

    def __call__(
        self, child: Task, parent: Donor, others: Sequence[Donor]
    ) -> Iterator[tuple[str, ReuseParent]]:
        """Yields each trace of the child once, the most promising first, with the program that it adapts.

        Args:
            child: task to search.
            parent: parent of the child in the reuse tree.
            others: all other tasks of the run whose searches are done.
        """


class ParentsBest:
    """The parent's programs, the fastest first: TopK of Selective Tuning (ETO section 7.1).

    The paper applies the parent's sketches and annotations to the child without changes. If factors do not
    divide the child's extents, `adapt` chooses near factors that do.
    """

    def __init__(self, adapt: Adapt) -> None:
        self._adapt = adapt

    def __call__(
        self, child: Task, parent: Donor, others: Sequence[Donor]
    ) -> Iterator[tuple[str, ReuseParent]]:
        """See StartChoice."""
        programs = (ReuseParent(parent.task, trace) for trace in parent.fastest)
        return adapted_once(programs, child, self._adapt)


class NearestPrograms:
    """The fastest programs of the tasks with the nearest loops, whichever task is the child's parent."""

    def __init__(
        self,
        adapt: Adapt,
        loops: Callable[[Task], Loops | None],
        fits: Callable[[Task, str, Task], bool],
        *,
        of_each: int = OF_EACH,
    ) -> None:
        """`of_each` is the number of programs considered per task, counting programs that fit the child."""
        self._adapt = adapt
        self._fits = fits
        self._loops = loops
        self._of_each = of_each

    def __call__(
        self, child: Task, parent: Donor, others: Sequence[Donor]
    ) -> Iterator[tuple[str, ReuseParent]]:
        """See StartChoice."""
        own = self._loops(child)
        apart: list[tuple[float, int, ReuseParent]] = []
        for donor in (parent, *others):
            loops = self._loops(donor.task)
            if own is None or loops is None or loops.kind != own.kind:
                continue
            fastest = (trace for trace in donor.fastest if self._fits(donor.task, trace, child))
            apart += [
                (own.distance(loops) + PLACE * place, len(apart) + place, ReuseParent(donor.task, trace))
                for place, trace in enumerate(islice(fastest, self._of_each))
            ]
        return adapted_once(
            (program for *_, program in sorted(apart, key=lambda found: found[:2])), child, self._adapt
        )


def adapted_once(
    programs: Iterable[ReuseParent], child: Task, adapt: Adapt
) -> Iterator[tuple[str, ReuseParent]]:
    """Distinct traces of the child that the programs adapt to."""
    seen = set()
    for program in programs:
        trace = adapt(program.task, program.trace, child)
        if trace is not None and trace not in seen:
            seen.add(trace)
            yield trace, program
