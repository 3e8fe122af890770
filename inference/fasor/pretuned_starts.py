"""Start source of pretuned schedules of the same or of similar tasks (Fasor section 6.1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from tvm.target import Target

from ...compiler.task import Task
from ...compiler.tvm_compat import target_to_json
from ..database.tuning_database import TuningDatabase
from ..reuse.parent import ReuseParent
from ..search.config import OneShotConfig
from ..spaces.stock import StockSpace
from ..starts.adapted import AdaptedStarts, ProgramAdapter
from ..starts.base import Start, StartSource
from ..starts.config import PretunedConfig
from .pretuned_schedules import PretunedError, PretunedSchedules, TaskKey, device_of, target_type

SHIPPED = Path(__file__).parent / "pretuned.parquet"
"""Schedules shipped with foretune, from its bundled records."""

_OF_OWN = 1
"""Programs that count per task of the tuning database: its fastest one."""


class PretunedStarts(StartSource):
    """Pretuned schedules of a task, or of the most similar tasks, adapted to its extents.

    A task whose workload hash has a schedule for this type of target begins with this schedule. For any other
    task, the tasks of its kernel class are ordered by the Spearman correlation of their attributes
    (`TaskKey`); correlations below `similarity`, Fasor's τ, do not count. Equal correlations are frequent.
    Among them, schedules of this model of device come first, then tasks with the nearest attributes. A task
    without a similar task has no pretuned start, and its search begins as it does by default.
    """

    def __init__(
        self,
        schedules: PretunedSchedules,
        target: Target,
        adapter: ProgramAdapter,
        *,
        config: PretunedConfig | None = None,
        own: Callable[[], Sequence[ReuseParent]] = tuple,
    ) -> None:
        """Creates a source.

        Args:
            own: programs of other tasks on this target and device, such as the programs of a tuning database.

        Raises PretunedError if all schedules are for other types of targets.
        """
        self._schedules = schedules
        self._config = config or PretunedConfig()
        self._device = device_of(target_to_json(target))
        self._type = target_type(target_to_json(target))
        self._own_programs = own
        self._own: list[tuple[TaskKey, ReuseParent]] | None = None
        self._adapted = AdaptedStarts(self.similar, adapter, self._config.programs)
        types = sorted({target_type(name) for name in schedules.targets})
        if self._type not in types:
            raise PretunedError(
                f"search.starts=pretuned: {schedules.path} has schedules for {', '.join(types)}, and the "
                f"target is for {self._type}; make a file of your records with foretune pretune and name it "
                "by search.pretuned.file, or use search.starts=known"
            )

    def starts(self, task: Task) -> Sequence[Start]:
        """See StartSource."""
        exact = self.exact(task)
        return [Start(exact)] if exact is not None else self._adapted.starts(task)

    def exact(self, task: Task) -> str | None:
        """Trace of the task's own pretuned schedule, preferably for this model of device; None if missing."""
        key = TaskKey.of(task)
        found = [
            (device_of(target) != self._device, number)
            for number, other, target in self._schedules.candidates(key)
            if other.workload_hash == key.workload_hash and target_type(target) == self._type
        ]
        return self._schedules.schedule(min(found)[1]).trace if found else None

    def similar(self, task: Task) -> list[ReuseParent]:
        """Programs of similar tasks, the most similar first, no more than the number of starts wanted."""
        key = TaskKey.of(task)
        ranked: list[tuple[float, bool, float, int]] = []
        programs: list[int | ReuseParent] = []

        def consider(other: TaskKey, elsewhere: bool, program: int | ReuseParent) -> None:
            similarity = key.similarity(other)
            if similarity >= self._config.similarity and other.workload_hash != key.workload_hash:
                # Rounded, because equal ranks differ by rounding errors.
                ranked.append((-round(similarity, 9), elsewhere, key.distance(other), len(programs)))
                programs.append(program)

        for other, program in self._own_keys():
            if other.kernel_class == key.kernel_class:
                consider(other, False, program)
        for number, other, target in self._schedules.candidates(key):
            if target_type(target) == self._type:
                consider(other, device_of(target) != self._device, number)
        chosen = [programs[place] for *_, place in sorted(ranked)[: self._config.programs]]
        return [self._parent(one) if isinstance(one, int) else one for one in chosen]

    def _parent(self, number: int) -> ReuseParent:
        schedule = self._schedules.schedule(number)
        return ReuseParent(schedule.task(), schedule.trace)

    def _own_keys(self) -> list[tuple[TaskKey, ReuseParent]]:
        if self._own is None:
            self._own = [(TaskKey.of(program.task), program) for program in self._own_programs()]
        return self._own


def pretuned_starts(
    config: OneShotConfig, target: Target, database: TuningDatabase, retune: bool
) -> list[StartSource]:
    """The start source of `search.pretuned`, which includes the tasks of the run's database.

    With `retune` it reads nothing from the database. Raises PretunedError.
    """

    def own() -> list[ReuseParent]:
        return [
            ReuseParent(task, trace)
            for task in ([] if retune else database.other_tasks(()))
            for trace in database.latencies_s(task, most=_OF_OWN)
        ]

    file = config.pretuned.file
    return [
        PretunedStarts(
            PretunedSchedules(SHIPPED if file is None else Path(file)),
            target,
            ProgramAdapter(target, StockSpace(config.max_code)),
            config=config.pretuned,
            own=own,
        )
    ]
