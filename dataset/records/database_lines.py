"""Files of a MetaSchedule database as plain JSON: lines are read, compared and written without TVM."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

WORKLOAD_FILE = "database_workload.json"
RECORD_FILE = "database_tuning_record.json"

FAILED_S = 1e9
"""Latency from which a program counts as failed: MetaSchedule writes 1e9 or more for a failure."""

_HASH_MASK = 0xFFFFFFFFFFFFFFFF
_MOST_LEVELS = 12
"""Most levels of nested lists in a record: MetaSchedule writes 6, and thousands overflow TVM's stack."""


@dataclass(frozen=True, eq=False)
class StoredRecord:
    """One schedule of a database."""

    workload: int
    """Index of its task among the workloads."""
    latency_s: float
    """Shortest repeat in seconds, as `latency_of` computes it; inf for a schedule that was not measured."""
    content: list[Any]
    """MetaSchedule's JSON: trace, repeats in seconds, target, arguments."""

    @property
    def trace(self) -> str:
        """JSON of the whole trace with postprocessing; a version of TVM has one way to write a program."""
        return json.dumps(self.content[0], separators=(",", ":"))

    def line(self, workload: int) -> str:
        """The record as a line of a database in which its task has this index."""
        return record_line(workload, self.content)


def record_line(workload: int, content: Sequence[Any]) -> str:
    """Line of RECORD_FILE with MetaSchedule's content of a record, whose task has this index."""
    return json.dumps([workload, content], separators=(",", ":"))


def parsed_workload(line: str) -> str:
    """Workload hash of a line of WORKLOAD_FILE; raises ValueError for any other line."""
    content = json.loads(line)
    if (
        not isinstance(content, list)
        or len(content) != 2
        or not all(isinstance(part, str) for part in content)
        or not content[0].isdecimal()
    ):
        raise ValueError("no workload of MetaSchedule")
    return f"{int(content[0]) & _HASH_MASK:016x}"


def parsed_record(line: str, workloads: int) -> StoredRecord:
    """Measured record in a line of RECORD_FILE, for a database with this number of workloads.

    Raises ValueError for any other line, such as a failed measurement.
    """
    record = parsed_schedule(line, workloads)
    seconds = record.content[1]
    if not isinstance(seconds, list) or not seconds:
        raise ValueError("no latency")
    if not all(isinstance(second, float | int) and 0 < second < FAILED_S for second in seconds):
        raise ValueError(f"its latency {seconds!r:.40} is no time in seconds")
    return replace(record, latency_s=float(min(seconds)))


def parsed_schedule(line: str, workloads: int) -> StoredRecord:
    """Like `parsed_record`, but ignores the latency of the record."""
    parsed = json.loads(line)
    if not isinstance(parsed, list) or len(parsed) != 2 or not isinstance(parsed[1], list):
        raise ValueError("no record of MetaSchedule")
    index, content = parsed
    if not isinstance(index, int) or not 0 <= index < workloads:
        raise ValueError(f"of the task {index!r:.40}, but there are {workloads} tasks")
    if len(content) != 4 or not isinstance(content[0], list) or len(content[0]) != 2:
        raise ValueError("no record of MetaSchedule")
    if _levels(content, _MOST_LEVELS) > _MOST_LEVELS:
        raise ValueError(f"nested over {_MOST_LEVELS} levels deep")
    return StoredRecord(index, math.inf, content)


def _levels(value: Any, most: int) -> int:
    """Levels of nested lists and objects, counted up to one more than `most`."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    if inside is None:
        return 0
    if most == 0:
        return 1
    return 1 + max((_levels(item, most - 1) for item in inside), default=0)
