"""Start sources over a tuning database: its own measurements, and imported bundles of another device."""

from __future__ import annotations

from collections.abc import Sequence

from tvm.target import Target

from ...compiler.task import Task
from ..database.tuning_database import TuningDatabase
from ..search.config import OneShotConfig
from .base import Start, StartSource


class DatabaseStarts(StartSource):
    """Measured programs of a tuning database. A search continues from them without measuring them again."""

    def __init__(self, database: TuningDatabase) -> None:
        self._database = database

    def starts(self, task: Task) -> Sequence[Start]:
        """See StartSource."""
        if self._database.best_latency_s(task) is None:
            return ()
        return [Start(trace, latency_s) for trace, latency_s in self._database.latencies_s(task).items()]


def no_further_starts(
    config: OneShotConfig, target: Target, database: TuningDatabase, retune: bool
) -> list[StartSource]:
    """No start sources in addition to the database, which every run has."""
    return []


class ImportedStarts(StartSource):
    """Candidates, without latencies, that `foretune bundle import adapt=true` puts next to a database."""

    def __init__(self, database: TuningDatabase) -> None:
        self._database = database

    def starts(self, task: Task) -> Sequence[Start]:
        """See StartSource."""
        return [Start(trace) for trace in self._database.imported_starts(task)]
