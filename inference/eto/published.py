"""Reuse trees of ETO and of Selective Tuning for the tasks of a run."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from ...compiler.structure.read_spaces import gpu_limits, read_spaces
from ...compiler.targets import traits
from ...compiler.task import Task
from ...compiler.tvm_compat import NoDesignSpaceError, make_tune_context
from ...dataset.features.reading import task_reading
from ..reuse.conditions import Operator, SketchSignature, UnreadableOperatorError, can_reuse, operator_of
from ..reuse.config import ALL_BRIDGES, NO_BRIDGES
from ..reuse.rules import Selected
from ..reuse.selection import GivenSelection
from ..reuse.tree import ReuseTree
from ..spaces.base import DesignSpace
from .graph.bridges import all_bridges, bridge_task, one_hop_bridges
from .graph.least_cost import LeastCostSelection
from .graph.search_cost import SAMPLES, SearchCost
from .graph.selective_tuning import Space, selective_tuning, similarity, steps_of
from .search.search import ReuseTarget


@dataclass(frozen=True, eq=False)
class Described:
    """A task with its operator."""

    task: Task
    operator: Operator

    @property
    def kind(self) -> Hashable:
        """Type and sketches: reuse condition (1) of Definition 2."""
        return self.operator.type, self.operator.reduction, self.operator.sketches


class PublishedTrees:
    """Selections of ETO (section 6) and of Selective Tuning; they read each task's design space once."""

    def __init__(self, target: Target, space: DesignSpace, *, samples: int = SAMPLES) -> None:
        """Creates the selections; no task is described yet.

        Args:
            space: design space in which the tasks are searched.
            samples: number of sizes of a parent's shapes that the estimates sample.
        """
        self._target = target
        self._space = space
        self._described: dict[str, Described | None] = {}
        self._estimates: dict[tuple[str, str, Hashable | None], float] = {}
        limits = gpu_limits(target)
        bits = None if limits else traits(target).vector_bits
        self._cost = SearchCost(ReuseTarget(limits, (bits or 128) // 8), samples)

    def least_cost(self, tasks: Sequence[Task], *, trials: int, bridges: str) -> Selected:
        """ETO's reuse tree, with the bridges that it may contain. It excludes tasks that cannot be read.

        Args:
            trials: programs that the backend measures for a task without a parent.
            bridges: one of BRIDGES.
        """
        operators = {task.workload_hash: found for task in tasks if (found := self.describe(task))}
        further = {} if bridges == NO_BRIDGES else self._bridges(operators, bridges == ALL_BRIDGES)
        selection = LeastCostSelection(
            operators,
            further,
            kind=lambda one: one.kind,
            can_reuse=lambda parent, child: can_reuse(parent.operator, child.operator),
            search_cost=lambda one: float(trials),
            reuse_cost=self.cost,
        )
        return Selected(selection, [one.task for one in further.values()])

    def cost(self, parent: Described, child: Described, sketch: Hashable | None = None) -> float:
        """Estimated number of programs of a reuse pair (section 6.1); see `SearchCost`."""
        key = parent.task.workload_hash, child.task.workload_hash, sketch
        if key not in self._estimates:
            self._estimates[key] = self._cost(parent.operator, child.operator, sketch)
        return self._estimates[key]

    def clusters(self, tasks: Sequence[Task]) -> Selected:
        """Selective Tuning's clusters as a tree, in which the representative is the parent of the others."""
        spaces = {task.workload_hash: self._steps(task) for task in tasks}

        def likeness(first: str, second: str) -> float:
            return similarity(spaces[first], spaces[second])

        names = [name for name, space in spaces.items() if space]
        return Selected(GivenSelection(ReuseTree(selective_tuning(names, likeness), {})))

    def sketch_of(self, task: Task, trace: str) -> SketchSignature | None:
        """Sketch of a program of a task; None if it cannot be read."""
        try:
            return SketchSignature.of(task_reading(task.mod).sketches.read(trace)[0])
        except Exception:  # TVM raises InternalError and others
            return None

    def _bridges(self, operators: Mapping[str, Described], every: bool) -> dict[str, Described]:
        find: Callable[..., dict[str, Described]] = all_bridges if every else one_hop_bridges
        return find(
            operators,
            kind=lambda one: one.kind,
            can_reuse=lambda parent, child: can_reuse(parent.operator, child.operator),
            bridge=self._bridge,
        )

    def _bridge(self, first: Described, second: Described) -> tuple[str, Described] | None:
        task = bridge_task(first.task, second.task, partial(self._is_kind, first.kind))
        found = None if task is None else self.describe(task)
        return None if found is None else (found.task.workload_hash, found)

    def _is_kind(self, kind: Hashable, task: Task) -> bool:
        found = self.describe(task)
        return found is not None and found.kind == kind

    def describe(self, task: Task) -> Described | None:
        """The task with its operator; None if it has nothing to tune or its loops cannot be read."""
        key = task.workload_hash
        if key not in self._described:
            try:
                found = Described(task, operator_of(task, self._context(task)))
            except (UnreadableOperatorError, NoDesignSpaceError):
                found = None
            self._described[key] = found
        known = self._described[key]
        return None if known is None else Described(task, known.operator)

    def _context(self, task: Task) -> ms.TuneContext:
        generator = self._space.generator(self._target)
        return make_tune_context(task.mod, self._target, seed=0, name=task.name, space=generator)

    def _steps(self, task: Task) -> Space:
        """Values of all decisions by sketch; empty without decisions."""
        try:
            structure = task_reading(task.mod).structure
            spaces = read_spaces(self._context(task), structure, task.name)
        except Exception:  # TVM raises InternalError and others for unreadable loops
            return {}
        return {SketchSignature.of(space.sketch): steps_of(space) for space in spaces}
