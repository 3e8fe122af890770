"""Schedules that need no search: the most promising hardware-native template of each task."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from ...compiler.replay import replay
from ...compiler.spaces.measurable_space import measurable_space
from ...compiler.task import Task
from ...compiler.tvm_compat import make_tune_context
from ..database.predicted_schedules import UNMEASURED_S
from ..database.schedule_lines import database_of
from ..starts.base import StartSource


class FirstSchedules:
    """Schedules of templates that nothing has measured, in memory."""

    def __init__(self, target: Target, templates: StartSource | None, max_code: int | None) -> None:
        """`templates` has the templates of a task, the most promising first; None has none.

        A template over `max_code` vector instructions is left out, as in a search.
        """
        self._target = target
        self._templates = templates
        self._max_code = max_code
        self._records: dict[str, ms.database.TuningRecord] = {}

    def __contains__(self, workload_hash: str) -> bool:
        return workload_hash in self._records

    def add(self, tasks: Iterable[Task]) -> None:
        """Adds a schedule of each task that has a template."""
        for task in tasks:
            if (record := self._record(task)) is not None:
                self._records[task.workload_hash] = record

    def behind(self, measured: ms.Database, workload_hashes: Collection[str]) -> ms.Database:
        """Database for compilation: these schedules for the tasks for which `measured` has none."""
        own = [self._records[name] for name in workload_hashes if name in self._records]
        return ms.database.OrderedUnionDatabase(measured, database_of(own))

    def _record(self, task: Task) -> ms.database.TuningRecord | None:
        starts = [] if self._templates is None else self._templates.starts(task)
        if not starts:
            return None
        space = measurable_space(self._target, self._max_code)
        context = make_tune_context(task.mod, self._target, seed=0, name=task.name, space=space)
        program = replay(context, starts[0].trace)
        if program is None:
            return None
        workload = ms.database.Workload(task.mod)
        return ms.database.TuningRecord(
            program.sch.trace, workload, [UNMEASURED_S], self._target, program.args_info
        )
