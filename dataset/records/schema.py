"""Records and tasks of a dataset, and their Parquet schemas."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, fields
from enum import Enum

import pyarrow as pa

SCHEMA_VERSION = 3
"""Version of the schema; change it when a column is added or redefined. Unknown versions raise StoreError."""

READABLE_VERSIONS = (1, 2, 3)
"""Version 1 lacks `disturbed`, `simulated`, `probe_ratio` and `moved_bytes`, version 2 only `moved_bytes`;
missing columns read as their defaults."""

WIDE_VECTORS_SINCE = 1795737908.0
"""Time, in seconds since the epoch, since which programs are compiled with `wide_vectors`."""


class FailureKind(str, Enum):
    """Cause of a failed measurement."""

    BUILD_ERROR = "build_error"
    RUN_ERROR = "run_error"
    BUILD_TIMEOUT = "build_timeout"
    RUN_TIMEOUT = "run_timeout"
    WORKER_DIED = "worker_died"
    WRONG_OUTPUT = "wrong_output"


@dataclass(frozen=True)
class TaskRow:
    """Task of a dataset; `tir` is TVM's JSON of its module, which the other columns describe."""

    workload_hash: str
    name: str
    operator: str
    settings: str  # JSON object of the operator's settings
    source: str  # "operator", "network:<name>" or "database:<folder>"
    flops: float
    tir: str


@dataclass(frozen=True)
class Record:
    """Measured candidate.

    `trace` is TVM's JSON of the trace without postprocessing; it replays on the task's module. `run_secs` are
    the repeats in seconds, empty for a failure. `cut_short` marks a program far slower than the best of its
    task, measured by a single run. `probe_ratio` is the latency of the noise probe around the measurement
    over its quiet latency, None without a probe; `disturbed` marks a latency or a timeout that was measured
    under noise and not repeated in quiet. `simulated` marks a latency without a device. `moved_bytes` are the
    bytes that a run fetched from memory, by the CPU's counters; None if not counted.
    """

    workload_hash: str
    trace: str
    run_secs: tuple[float, ...]
    failure: FailureKind | None
    failure_message: str
    cut_short: bool
    sampler: str
    round: int
    seed: int
    hardware_id: str
    target: str  # JSON
    tvm_version: str
    timestamp: float  # seconds since the epoch
    build_s: float
    run_s: float
    disturbed: bool = False
    simulated: bool = False
    probe_ratio: float | None = None
    moved_bytes: float | None = None

    def __post_init__(self) -> None:
        if bool(self.run_secs) == (self.failure is not None):
            raise ValueError(
                f"record of {self.workload_hash}: run_secs={self.run_secs} and failure={self.failure}; "
                "a record has either latencies or a failure"
            )

    @property
    def latency_s(self) -> float:
        """Latency in seconds by `latency_of`, +inf after a failure."""
        return latency_of(self.run_secs)

    @property
    def before_wide_vectors(self) -> bool:
        """Whether the program was compiled without `wide_vectors`."""
        return self.timestamp < WIDE_VECTORS_SINCE

    @property
    def key(self) -> str:
        """Content hash of the candidate and device; measurements with the same key are duplicates."""
        return record_key(self.workload_hash, self.trace, self.hardware_id, self.target)


SHORTEST_S = 1e-9
"""Shortest latency in seconds. A clock that did not tick during a run reads 0, and speeds are 1 / latency."""


def latency_of(run_secs: Sequence[float]) -> float:
    """Latency in seconds of repeated runs: the shortest, or +inf without a run; at least SHORTEST_S.

    Disturbances on a shared machine only add time, so the shortest run has the smallest error. Records keep
    all repeats, so other statistics remain possible.
    """
    return max(min(run_secs, default=math.inf), SHORTEST_S)


KEY_COLUMNS = ("workload_hash", "trace", "hardware_id", "target")
"""Columns that `record_key` takes as arguments."""

COLUMN_DEFAULTS = {field.name: field.default for field in fields(Record) if field.default is not MISSING}
"""Values of columns that a shard of an older version lacks."""


def record_key(workload_hash: str, trace: str, hardware_id: str, target: str) -> str:
    """32 hex digits that identify a candidate on a device."""
    content = "\0".join((workload_hash, trace, hardware_id, target))
    return hashlib.sha256(content.encode()).hexdigest()[:32]


TASK_SCHEMA = pa.schema(
    [
        ("workload_hash", pa.string()),
        ("name", pa.string()),
        ("operator", pa.string()),
        ("settings", pa.string()),
        ("source", pa.string()),
        ("flops", pa.float64()),
        ("tir", pa.string()),
    ],
    metadata={"foretune_schema": str(SCHEMA_VERSION)},
)

RECORD_SCHEMA = pa.schema(
    [
        ("workload_hash", pa.string()),
        ("trace", pa.string()),
        ("run_secs", pa.list_(pa.float64())),
        ("failure", pa.string()),
        ("failure_message", pa.string()),
        ("cut_short", pa.bool_()),
        ("sampler", pa.string()),
        ("round", pa.int32()),
        ("seed", pa.int64()),
        ("hardware_id", pa.string()),
        ("target", pa.string()),
        ("tvm_version", pa.string()),
        ("timestamp", pa.float64()),
        ("build_s", pa.float32()),
        ("run_s", pa.float32()),
        ("disturbed", pa.bool_()),
        ("simulated", pa.bool_()),
        ("probe_ratio", pa.float32()),
        ("moved_bytes", pa.float64()),
    ],
    metadata={"foretune_schema": str(SCHEMA_VERSION)},
)
