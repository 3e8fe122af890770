"""Pretuned schedules: the fastest program of each task and target, in a Parquet file (Fasor section 6.1).

Fasor stores a schedule under a key of target type, task key, kernel class and arguments (Table 3). Here the
task key is the workload hash. The kernel class is the sequence of operators with the data types and layouts.
The arguments are the numbers in the operator's settings. All are read from the task's TIR.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import tvm
from scipy.stats import rankdata
from tvm.target import Target
from tvm.target.codegen import llvm_get_cpu_archlist

from ...compiler.described_task import described_task
from ...compiler.structure.operator_sequence import operator_sequence
from ...compiler.task import Task
from ...errors import UserError
from ...files import CannotWriteError, written_whole

SCHEMA_VERSION = 1
"""Version of the file format; increase it when a column is added or redefined."""

_VERSION_KEY = b"foretune_pretuned_schema"
_GROUP_ROWS = 64
"""Rows per group. A lookup reads the TIR of few tasks, whereas the TIR of a whole file has megabytes."""


class PretunedError(UserError, ValueError):
    """A file of pretuned schedules cannot be used."""


@dataclass(frozen=True)
class TaskKey:
    """Attributes that the comparison of tasks uses (Fasor Table 3, without the target)."""

    workload_hash: str
    kernel_class: str
    """Operators in order, followed by settings that are not numbers, such as data types and layouts."""
    attributes: tuple[float, ...]
    """Numbers of the settings, in the order of their names."""

    @classmethod
    def of(cls, task: Task) -> TaskKey:
        """Key of a task. It depends on the TIR only, not on a name or a source."""
        described = described_task(task.mod)
        leaves = list(_leaves(described.settings))
        kinds = [f"{name}={leaf}" for name, leaf in leaves if isinstance(leaf, str) or leaf is True]
        numbers = [float(leaf) for _, leaf in leaves if not isinstance(leaf, (str, bool))]
        names = [*operator_sequence(described), *kinds]
        return cls(task.workload_hash, " ".join(names), tuple(numbers))

    def similarity(self, other: TaskKey) -> float:
        """Spearman correlation of the attributes in [-1, 1]; 0 for tasks that are not comparable.

        Tasks of different kernel classes, or with different numbers of attributes, are not comparable. Equal
        attributes have the similarity 1, even if they do not vary.
        """
        if self.kernel_class != other.kernel_class or len(self.attributes) != len(other.attributes):
            return 0.0
        if self.attributes == other.attributes:
            return 1.0
        ranks = [rankdata(key.attributes) - (len(key.attributes) + 1) / 2 for key in (self, other)]
        lengths = [float(np.linalg.norm(rank)) for rank in ranks]
        return float(ranks[0] @ ranks[1] / (lengths[0] * lengths[1])) if all(lengths) else 0.0

    def distance(self, other: TaskKey) -> float:
        """Sum of the differences of the attributes in powers of two, for keys of one kernel class."""
        own, theirs = (np.log2(1 + np.array(key.attributes)) for key in (self, other))
        return float(np.abs(own - theirs).sum())


@dataclass(frozen=True)
class PretunedSchedule:
    """Fastest known program of a task on a target."""

    workload_hash: str
    kernel_class: str
    attributes: tuple[float, ...]
    target: str
    """JSON of the target, see `target_to_json`."""
    hardware_id: str
    latency_s: float
    """Latency in seconds on that device."""
    trace: str
    """Canonical trace (JSON)."""
    tir: str
    """TVM's JSON of the task's module."""

    @property
    def key(self) -> TaskKey:
        """Key of the schedule's task."""
        return TaskKey(self.workload_hash, self.kernel_class, tuple(self.attributes))

    def task(self) -> Task:
        """Task of the schedule; TVM needs milliseconds to load its module."""
        return described_task(tvm.ir.load_json(self.tir))


_SCHEMA = pa.schema(
    [
        ("workload_hash", pa.string()),
        ("kernel_class", pa.string()),
        ("attributes", pa.list_(pa.float64())),
        ("target", pa.string()),
        ("hardware_id", pa.string()),
        ("latency_s", pa.float64()),
        ("trace", pa.string()),
        ("tir", pa.string()),
    ],
    metadata={_VERSION_KEY: str(SCHEMA_VERSION).encode()},
)
_HEAVY = ("trace", "tir")
_ARCHITECTURES = {"x86_64": "x86", "amd64": "x86", "i686": "x86", "aarch64": "ARM", "arm64": "ARM"}
"""Architectures by the first part of a triple and by Python's name for a machine."""


def write_schedules(path: Path, schedules: Sequence[PretunedSchedule]) -> None:
    """Writes a file atomically; raises PretunedError if it cannot be written."""
    ordered = sorted(schedules, key=lambda one: (one.kernel_class, one.workload_hash, one.target))
    rows = pa.Table.from_pylist([asdict(schedule) for schedule in ordered], schema=_SCHEMA)
    options: dict[str, Any] = {"compression": "zstd", "compression_level": 19, "row_group_size": _GROUP_ROWS}
    try:
        with written_whole(path) as partial:
            pq.write_table(rows, partial, **options)
    except CannotWriteError as error:
        raise PretunedError(str(error)) from error


class PretunedSchedules:
    """Schedules of a file. Looking up a task reads only part of the file."""

    def __init__(self, path: Path) -> None:
        """Reads the keys. Raises PretunedError for a file that is missing, damaged or of another schema."""
        self.path = path
        try:
            self._file = pq.ParquetFile(path)
            version = (self._file.schema_arrow.metadata or {}).get(_VERSION_KEY, b"none").decode()
            if version != str(SCHEMA_VERSION):
                raise PretunedError(
                    f"pretuned schedules {path}: schema version {version}, but this foretune reads "
                    f"{SCHEMA_VERSION}; make the file again with foretune pretune"
                )
            light = [name for name in _SCHEMA.names if name not in _HEAVY]
            rows = self._file.read(light).to_pylist()
        except (OSError, pa.ArrowException) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise PretunedError(
                f"pretuned schedules {path}: cannot be read ({reason}); make the file with foretune pretune"
            ) from error
        self._rows: list[dict[str, Any]] = rows
        self.targets: list[str] = sorted({row["target"] for row in rows})
        """JSON of each target that has schedules in the file."""
        self.keys = [TaskKey(r["workload_hash"], r["kernel_class"], tuple(r["attributes"])) for r in rows]
        """Keys of the tasks of all schedules."""
        self._of_class: dict[str, list[int]] = {}
        for number, key in enumerate(self.keys):
            self._of_class.setdefault(key.kernel_class, []).append(number)

    def __len__(self) -> int:
        return len(self._rows)

    def candidates(self, key: TaskKey) -> Iterator[tuple[int, TaskKey, str]]:
        """Yields the number, key and target of each schedule of the key's kernel class."""
        for number in self._of_class.get(key.kernel_class, ()):
            yield number, self.keys[number], self._rows[number]["target"]

    def schedule(self, number: int) -> PretunedSchedule:
        """A schedule by its number; reads the row group that contains it."""
        group, row = divmod(number, _GROUP_ROWS)
        heavy = self._file.read_row_group(group, columns=list(_HEAVY)).slice(row, 1).to_pylist()[0]
        return PretunedSchedule(**{**self._rows[number], **heavy})


def target_type(target: str) -> str:
    """Kind of platform of a target in JSON (Fasor Table 3), such as "x86 CPU" or "cuda".

    Programs for one kind of platform have the same kinds of decisions, whatever the model of the device.
    """
    values = json.loads(target)
    if values["kind"] != "llvm":
        return str(values["kind"])
    return f"{_architecture(str(values.get('mtriple', '')), str(values.get('mcpu', '')))} CPU"


def device_of(target: str) -> str:
    """JSON of a target without the number of cores and the tag: equal for equal models of device."""
    values = json.loads(target)
    return json.dumps({name: values[name] for name in sorted(values) if name not in ("num-cores", "tag")})


@cache
def _architecture(triple: str, cpu: str) -> str:
    """Architecture of the triple; else of the CPU's name if it belongs to another; else this machine's."""
    named = triple.partition("-")[0] or platform.machine().lower()
    own = _ARCHITECTURES.get(named, named)
    if triple or not cpu or cpu in _cpus(own):
        return own
    return next((name for name in sorted(set(_ARCHITECTURES.values())) if cpu in _cpus(name)), own)


@cache
def _cpus(architecture: str) -> frozenset[str]:
    """Names of the CPUs of an architecture that LLVM knows; empty if LLVM cannot generate code for it."""
    triple = next((name for name, found in _ARCHITECTURES.items() if found == architecture), architecture)
    try:
        return frozenset(
            map(str, llvm_get_cpu_archlist(Target({"kind": "llvm", "mtriple": f"{triple}-linux"})))
        )
    except Exception:  # TVM raises InternalError for an architecture that this LLVM lacks
        return frozenset()


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Values in nested settings with their names, in the order of the names."""
    if isinstance(value, Mapping):
        for part in sorted(value):
            yield from _leaves(value[part], f"{name}.{part}" if name else part)
    elif isinstance(value, (list, tuple)):
        for number, part in enumerate(value):
            yield from _leaves(part, f"{name}.{number}")
    elif value is not None:
        yield name, value
