"""Start source that adapts programs of other tasks to the task's extents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from ...compiler.replay import RejectedError, candidate_trace_json, replay_or_reject
from ...compiler.spaces.measurable_space import PYTHON_POSTPROCESSOR, python_cause
from ...compiler.structure.adapting import adapted_choices, corresponds
from ...compiler.structure.limits import GpuLimits, within_limits
from ...compiler.structure.nest import Nest
from ...compiler.structure.read_spaces import gpu_limits, read_spaces
from ...compiler.structure.sketch import Sketch
from ...compiler.structure.space import SketchSpace
from ...compiler.task import Task
from ...compiler.tvm_compat import make_tune_context
from ...dataset.features.reading import task_reading
from ...dataset.sampling.programs.counts import DUPLICATE
from ..reuse.parent import ReuseParent
from ..spaces.base import DesignSpace
from ..spaces.stock import StockSpace
from .base import Start, StartSource

NO_SKETCH = "no matching sketch"
"""Cause of a skipped program: the child has no sketch with the program's decisions."""

UNREADABLE = "unreadable program"
"""Cause of a skipped program: the trace does not belong to its task, or is from another version of TVM."""

LIMITS = "thread or memory limits"
"""Cause of a skipped program: every candidate near it breaks a limit of the GPU's thread block."""

NEAREST = 64
"""Candidates considered near a program; if the nearest one respects the limits, few others break them."""


@dataclass(frozen=True)
class _Opened:
    """A child with its sketch spaces."""

    context: ms.TuneContext
    spaces: Sequence[SketchSpace]


class ProgramAdapter:
    """Adapts programs of one task to another (`compiler.structure.adapting`), replays and checks them.

    A program is skipped if it breaks the limits of a GPU's thread block, exceeds the code size on a CPU or
    fails another postprocessor; `skipped` counts these programs by cause. TVM needs a tenth of a second to
    open a child, and about 7 ms to replay a candidate.
    """

    def __init__(self, target: Target, space: DesignSpace) -> None:
        """`space` is the design space of the children, such as `StockSpace(config.max_code)`."""
        self.skipped: Counter[str] = Counter()
        self._target = target
        self._space = space
        self._limits: GpuLimits | None = gpu_limits(target)
        self._opened: dict[str, _Opened | None] = {}
        self._known: dict[tuple[str, str], tuple[Sketch, Sequence[int]] | None] = {}

    def __call__(self, parent: Task, trace: str, child: Task) -> str | None:
        """The nearest valid program of the child; None if no candidate is valid. See `donors.Adapt`."""
        return next(self.variants(parent, trace, child), None)

    def variants(self, parent: Task, trace: str, child: Task) -> Iterator[str]:
        """Yields each trace of a valid program of the child once, the nearest to the parent's program first.

        Yields nothing if no program is valid; `skipped` then counts the cause of the nearest one.
        """
        read = self._read(parent, trace)
        if read is None:
            self.skipped[UNREADABLE] += 1
            return
        source, values = read
        opened, spaces = self._open(child), self._spaces(source, child)
        if opened is None or not spaces:
            self.skipped[NO_SKETCH] += 1
            return
        cause, seen = "", set[str]()
        # Sketches with the same instructions first: decisions of other sketches may mean other loops.
        for space in sorted(spaces, key=lambda space: space.sketch.counts != source.counts):
            choices = adapted_choices(source, values, space, NEAREST)
            kept = within_limits(Nest.of(space.sketch, space.values(choices)), self._limits)
            cause = cause or ("" if np.any(kept) else LIMITS)
            for row in space.traces(choices[kept]):
                try:
                    found = candidate_trace_json(replay_or_reject(opened.context, row))
                except RejectedError as error:
                    cause = cause or self._named(str(error))
                    continue
                if found not in seen:
                    seen.add(found)
                    yield found
        if not seen:
            self.skipped[cause or DUPLICATE] += 1

    def fits(self, parent: Task, trace: str, child: Task) -> bool:
        """Whether the child has a sketch with the program's decisions. Templates never fit."""
        read = self._read(parent, trace)
        return read is not None and bool(self._spaces(read[0], child))

    def _spaces(self, source: Sketch, child: Task) -> list[SketchSpace]:
        opened = self._open(child)
        return [] if opened is None else [s for s in opened.spaces if corresponds(source, s.sketch)]

    def _read(self, parent: Task, trace: str) -> tuple[Sketch, Sequence[int]] | None:
        key = parent.workload_hash, trace
        if key not in self._known:
            try:
                self._known[key] = task_reading(parent.mod).sketches.read(trace)
            except Exception:  # an unreadable trace, and TVM's errors for an unreadable task
                self._known[key] = None
        return self._known[key]

    def _open(self, child: Task) -> _Opened | None:
        """The child with its sketches; None if it has no sketch that can be read."""
        key = child.workload_hash
        if key not in self._opened:
            generator = self._space.generator(self._target)
            try:
                context = make_tune_context(
                    child.mod, self._target, seed=0, name=child.name, space=generator, threads=1
                )
                structure = task_reading(child.mod).structure
                self._opened[key] = _Opened(context, read_spaces(context, structure, child.name))
            except Exception:  # NoDesignSpaceError, or TVM's errors for unreadable loops
                self._opened[key] = None
        return self._opened[key]

    def _named(self, cause: str) -> str:
        is_limit = cause == PYTHON_POSTPROCESSOR and isinstance(self._space, StockSpace)
        return python_cause(self._target) if is_limit else cause


class AdaptedStarts(StartSource):
    """Adapted programs of other tasks, which the task measures first."""

    def __init__(
        self, programs: Callable[[Task], Sequence[ReuseParent]], adapter: ProgramAdapter, count: int = 4
    ) -> None:
        """Creates a source.

        Args:
            programs: function from a task to programs of other tasks, the most promising first.
            count: maximum number of starts of a task. Variants follow if the programs are fewer.
        """
        self._programs = programs
        self._adapter = adapter
        self._count = count

    def starts(self, task: Task) -> Sequence[Start]:
        """See StartSource."""
        programs = list(self._programs(task))
        return [Start(trace) for trace in islice(self._all(programs, task), self._count)]

    def _all(self, programs: Sequence[ReuseParent], task: Task) -> Iterator[str]:
        """The nearest variant of each program, then the next variants in turn; each trace once."""
        seen: set[str] = set()
        waiting = [self._adapter.variants(program.task, program.trace, task) for program in programs]
        while waiting:
            left = []
            for variants in waiting:
                for trace in variants:
                    if trace not in seen:
                        seen.add(trace)
                        left.append(variants)
                        yield trace
                        break
            waiting = left
