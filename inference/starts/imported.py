"""Start source over imported bundles: programs found on another device, which this one measures first."""

from __future__ import annotations

from collections.abc import Sequence

from ...compiler.task import Task
from ..database.tuning_database import TuningDatabase
from .base import Start, StartSource


class ImportedStarts(StartSource):
    """Candidates, without latencies, that `foretune bundle import adapt=true` puts next to a database."""

    def __init__(self, database: TuningDatabase) -> None:
        self._database = database

    def starts(self, task: Task) -> Sequence[Start]:
        """See StartSource."""
        return [Start(trace) for trace in self._database.imported_starts(task)]
