"""End of a tuning run: what it tells of a task that it does not search, and what a user can do next."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from ...compiler.task import Task
from ..database.predicted_schedules import PredictedSchedules
from ..database.tuning_database import TuningDatabase
from ..deploy.compile import how_to_run
from .opened import Opened
from .result import TuneResult


def next_steps(
    result: TuneResult, export: Path | None, opened: Opened, predicted: PredictedSchedules | None
) -> Iterator[str]:
    """Lines about the use of the exported library and of the schedules."""
    if export is not None and not result.networks and result.outputs_match is not False:
        yield from how_to_run(export, opened.target)
    folders = {"schedules": opened.database.folder}
    if predicted is not None:
        folders["predicted schedules, not measured,"] = predicted.folder
    for what, folder in folders.items() if not result.simulated else ():
        yield f"{what} for stock TVM: ms.database.JSONDatabase(work_dir={str(folder)!r})"


def noted_untuned_s(task: Task, database: TuningDatabase) -> float:
    """Latency in seconds of a task without a schedule; inf if unknown."""
    noted_s = database.notes.untuned_s(task)
    return math.inf if noted_s is None else noted_s


def megabytes(amount: int | None) -> float | None:
    """Bytes in 10^6, or None."""
    return None if amount is None else amount / 1e6
