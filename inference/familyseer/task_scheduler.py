"""`FamilyTaskScheduler`: foresee tuning as the task scheduler of stock MetaSchedule tuning."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms

from ...compiler.described_task import described_task
from ...compiler.tvm_compat import load_tensor_intrinsics
from ...dataset.records.schema import latency_of
from ..families.registry import check_grouping, family_of
from ..search.settings_checks import OneShotConfigError

_GAIN = 0.01
"""Smallest saving of an iteration that counts as a gain, as a share of the task's latency."""


@derived_object
class FamilyTaskScheduler(ms.task_scheduler.PyTaskScheduler):
    """Foresee tuning (FamilySeer section 5.2, Algorithm 1) as stock MetaSchedule's task scheduler.

    ```python
    from foretune.inference import FamilyCostModel, FamilyTaskScheduler

    database = ms.relax_integration.tune_relax(
        mod, {}, target, work_dir, max_trials_global=2000,
        task_scheduler=FamilyTaskScheduler(), cost_model=FamilyCostModel(),
    )
    ```

    Every task first has one iteration. Then the bottleneck, the task with the highest latency in the network,
    has an iteration, and its family has `proportion` of one. MetaSchedule's iterations have the same number
    of programs for every task (`num_trials_per_iter`, the paper's g). With a proportion of 0.25, therefore,
    an iteration of the family's next task follows every fourth iteration of the bottleneck. A task whose
    programs all failed waits until no other task is left. An object schedules one tuning at a time.
    """

    def __init__(self, proportion: float = 0.25, families: str = "core_operator", fade: float = 1.0) -> None:
        """Creates the scheduler.

        Args:
            proportion: p, above 0 and below 1.
            families: name of a grouping.
            fade: share of a task's potential that remains after each iteration that saves less than 1 %
                of the task's latency. The next iteration that saves more restores the potential. 1 is
                Algorithm 1, which continues with the bottleneck even if it does not gain.

        Raises OneShotConfigError.
        """
        super().__init__()
        load_tensor_intrinsics()  # see PretrainedCostModel
        check_grouping(families)
        if not 0 < proportion < 1:
            raise OneShotConfigError(f"proportion={proportion}: must be over 0 and below 1, such as 0.25")
        if not 0 < fade <= 1:
            raise OneShotConfigError(f"fade={fade}: must be over 0 and at most 1, such as 0.5")
        self._proportion = proportion
        self._fade = fade
        self._grouping = families
        self._first: Any = None
        self.order: list[int] = []
        """Numbers of the tasks in the order of their iterations."""

    def next_task_id(self) -> int:
        """Number of the task of the next iteration; -1 when all tasks have ended."""
        scheduler = self._outer()
        tasks = list(scheduler.tasks_)
        if not tasks:
            return -1
        self._begin(tasks)
        for number, task in enumerate(tasks):
            # MetaSchedule discards the running measurements of a task that is chosen again.
            if task.runner_futures is not None:
                self._learn(number, scheduler.join_running_task(number))
        alive = [number for number, task in enumerate(tasks) if not task.is_terminated]
        chosen = self._choose(alive)
        self.order += [chosen] if chosen >= 0 else []
        return chosen

    def _begin(self, tasks: Sequence[Any]) -> None:
        """Resets the state of an earlier tuning."""
        if self._first is not None and self._first.same_as(tasks[0]):
            return
        self._first = tasks[0]
        self.order = []
        self._best_s = [math.inf] * len(tasks)
        self._left = [1.0] * len(tasks)
        """Share of each task's potential that remains."""
        self._weights = [float(task.task_weight) for task in tasks]
        described = [described_task(task.ctx.mod, str(task.ctx.task_name or "task")) for task in tasks]
        self._families = [family_of(task, self._grouping) for task in described]
        self._stakes = [weight * task.flops for weight, task in zip(self._weights, described, strict=True)]
        self._credit: defaultdict[str, float] = defaultdict(float)
        self._due: int | None = None

    def _learn(self, number: int, results: Sequence[ms.runner.RunnerResult]) -> None:
        measured_s = latency_of([float(second) for result in results for second in result.run_secs or ()])
        before_s, self._best_s[number] = self._best_s[number], min(self._best_s[number], measured_s)
        saves = self._best_s[number] < (1 - _GAIN) * before_s
        self._left[number] = 1.0 if saves else self._fade * self._left[number]

    def _choose(self, alive: Sequence[int]) -> int:
        if not alive:
            return -1
        if unseen := [number for number in alive if number not in self.order]:
            return max(unseen, key=lambda number: self._stakes[number])
        if (tuned := self._due) is not None:
            self._due = None
            family = [n for n in alive if n != tuned and self._families[n] == self._families[tuned]]
            if family:
                return max(family, key=self._potential)
        bottleneck = max(alive, key=self._potential)
        self._credit[self._families[bottleneck]] += self._proportion
        if self._credit[self._families[bottleneck]] >= 1:
            self._credit[self._families[bottleneck]] -= 1
            self._due = bottleneck
        return bottleneck

    def _potential(self, number: int) -> float:
        """Seconds that the network spends in a task, times the share that remains; 0 if no program ran."""
        best_s = self._best_s[number]
        return self._left[number] * self._weights[number] * best_s if math.isfinite(best_s) else 0.0
