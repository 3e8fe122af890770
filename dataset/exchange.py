"""MetaSchedule's own databases, in and out: folders that stock TVM tunes into and compiles from.

A database does not look at the target of its records, and knows nothing of devices: served from one folder,
the results of one machine would be used on another. So what is exported has one folder a target and device.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import tvm
from tvm.s_tir import meta_schedule as ms

from ..errors import UserError
from .replay import trace_to_json
from .tvm_compat import target_to_json

WORKLOAD_FILE = "database_workload.json"
RECORD_FILE = "database_tuning_record.json"

_LOG = logging.getLogger(__name__)


class DatabaseError(UserError, ValueError):
    """The folder is no MetaSchedule database, or none can be written there."""


class DatabaseRecord(NamedTuple):
    """One line of a database; what MetaSchedule does not know, such as the device, is not there."""

    mod: tvm.IRModule
    """The task, not scheduled; one object for all records of a task."""
    trace: str
    """As `Record.trace`: without postprocessing."""
    run_secs: tuple[float, ...]
    """Repeats in seconds; empty where the measurement failed."""
    target: str | None
    """JSON as `Record.target` has it."""


def read_database(folder: Path, on_broken_line: Callable[[str], None] = _LOG.warning) -> list[DatabaseRecord]:
    """Every record of a `JSONDatabase` folder in the order of its file.

    A line that TVM cannot read is told to `on_broken_line` by file, line and cause, and left out. Raises
    DatabaseError where the folder has no database.
    """
    for name in (WORKLOAD_FILE, RECORD_FILE):
        if not (folder / name).is_file():
            raise DatabaseError(
                f"database={folder}: there is no {name}; name the work_dir of a MetaSchedule JSONDatabase"
            )
    workloads = dict(_parsed(folder / WORKLOAD_FILE, ms.database.Workload.from_json, on_broken_line))

    def parse(line: list) -> DatabaseRecord:
        index, content = line
        if index not in workloads:
            raise ValueError(f"its task, line {index + 1} of {WORKLOAD_FILE}, is not there or broken")
        record = ms.database.TuningRecord.from_json(content, workloads[index])
        return DatabaseRecord(
            mod=record.workload.mod,
            trace=trace_to_json(record.trace),
            run_secs=_measured(record.run_secs),
            target=None if record.target is None else target_to_json(record.target),
        )

    return [record for _, record in _parsed(folder / RECORD_FILE, parse, on_broken_line)]


# What MetaSchedule writes as the latency of a program that failed.
_FAILED_S = 1e9


def _measured(run_secs: Any) -> tuple[float, ...]:
    seconds = tuple(float(second) for second in run_secs or ())
    return seconds if all(0 < second < _FAILED_S for second in seconds) else ()


def _parsed(
    path: Path, parse: Callable[[Any], Any], on_broken_line: Callable[[str], None]
) -> Iterator[tuple[int, Any]]:
    """Number, from 0, and content of each line that `parse` accepts."""
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file):
            try:
                yield number, parse(json.loads(line))
            except Exception as error:  # TVM raises InternalError, TypeError, ValueError and others
                reason = (str(error).strip().splitlines() or [type(error).__name__])[-1]
                on_broken_line(f"{path}, line {number + 1}: {reason}; left out")
