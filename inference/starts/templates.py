"""Start source of hardware-native templates, which compete with the programs that the search finds."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from tvm.target import Target

from ...compiler.task import Task
from ...compiler.templates.cpu.overflow import AccumulatorOverflowError
from ...compiler.templates.cpu.programs import template_traces
from ...dataset.hardware import Hardware
from ...dataset.measure.worker.light_profiler import LightProfiler
from .base import Start, StartSource

_LOG = logging.getLogger(__name__)


class TemplateStarts(StartSource):
    """The most promising templates of a task, which it measures first (Bolt, section 3.2.2)."""

    def __init__(
        self,
        target: Target,
        hardware: Hardware,
        count: int,
        profiler: LightProfiler | None = None,
        margin: float | None = None,
        *,
        alone: bool = False,
    ) -> None:
        """At most `count` templates of a task; see `template_traces`. `alone` uses one without a search."""
        self._target = target
        self._hardware = hardware
        self._count = count
        self._profiler = profiler
        self._margin = margin
        self._alone = alone

    def first(self) -> TemplateStarts:
        """The same with the most promising template of a task alone."""
        only = (self._target, self._hardware, 1, self._profiler, self._margin)
        return TemplateStarts(*only, alone=self._alone)

    def starts(self, task: Task) -> Sequence[Start]:
        """See StartSource; a task that no template fits, or whose sums may overflow, has no starts."""
        try:
            traces = template_traces(
                task.mod, self._target, self._hardware, self._count, self._profiler, self._margin
            )
        except AccumulatorOverflowError as error:
            _LOG.warning("%s: no templates: %s", task.name, error)
            return []
        return [Start(trace, alone=self._alone) for trace in traces]
