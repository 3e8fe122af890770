"""The result of one tuning run, as the report shows it and as `report.json` keeps it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from ..errors import UserError

SCHEMA_VERSION = 1
"""Version of the layout of `report.json`; raised when an old file can no longer be read."""

TUNED = "tuned TVM"
UNTUNED = "untuned TVM"
EAGER = "PyTorch eager"


class ResultFormatError(UserError, ValueError):
    """A file is no result of a tuning run, or one of another schema version."""


@dataclass(frozen=True)
class TaskResult:
    """What tuning did to one task. Latencies are seconds a call, None where none was measured."""

    name: str
    operator: str
    workload_hash: str
    weight: int
    """How often the network calls the task."""
    flops: float
    """Operations of one call."""
    untuned_latency_s: float | None
    tuned_latency_s: float | None
    candidates_scored: int
    candidates_measured: int
    """Validated on the device, the failed ones among them."""
    candidates_failed: int
    search_s: float
    measure_s: float
    predicted_scores: list[float]
    """The cost model's score of each validated candidate, best first."""
    measured_latencies_s: list[float]
    """Of the same candidates in the same order, +inf for a failure."""
    reason: str = ""
    """Why the task was not tuned, empty where it was."""
    from_database: bool = False
    """The schedule was found in a database instead of searched for."""

    def __post_init__(self) -> None:
        for name in ("untuned_latency_s", "tuned_latency_s"):
            latency = getattr(self, name)
            if latency is not None and not 0 < latency < math.inf:
                raise ValueError(
                    f"{name}={latency} of task {self.name}: a latency is positive and finite; "
                    "use None where nothing ran"
                )
        if len(self.predicted_scores) != len(self.measured_latencies_s):
            raise ValueError(
                f"task {self.name} has {len(self.predicted_scores)} predicted_scores and "
                f"{len(self.measured_latencies_s)} measured_latencies_s: give one of each per candidate"
            )

    @property
    def speedup(self) -> float | None:
        """Untuned over tuned latency, None unless both are known."""
        if self.untuned_latency_s is None or self.tuned_latency_s is None:
            return None
        return self.untuned_latency_s / self.tuned_latency_s

    @property
    def network_s(self) -> float | None:
        """Seconds that one run of the network spends in the task: tuned if possible, else untuned."""
        latency = self.untuned_latency_s if self.tuned_latency_s is None else self.tuned_latency_s
        return None if latency is None else self.weight * latency

    @property
    def measured_scores(self) -> list[float]:
        """Best measured latency over each measured latency, 0 for a failure."""
        best = min(self.measured_latencies_s, default=math.inf)
        return [best / latency if latency < math.inf else 0.0 for latency in self.measured_latencies_s]


def by_tasks_s(tasks: Sequence[TaskResult], latency: Callable[[TaskResult], float | None]) -> float | None:
    """Seconds that a run of a network takes in all of its tasks, None unless each latency is known."""
    times = [latency(task) for task in tasks]
    known = [time * task.weight for task, time in zip(tasks, times, strict=True) if time is not None]
    return sum(known) if known and len(known) == len(tasks) else None


def untuned_by_tasks_s(tasks: Sequence[TaskResult]) -> float | None:
    """`by_tasks_s` without schedules."""
    return by_tasks_s(tasks, lambda task: task.untuned_latency_s)


@dataclass(frozen=True)
class LatencyStats:
    """Latency of the whole network in one form, in seconds a run."""

    name: str
    """TUNED, UNTUNED, EAGER, or a name of the caller's."""
    median_s: float
    min_s: float
    samples_s: list[float]


@dataclass(frozen=True)
class RivalCurve:
    """Another run on the same network, drawn beside this one's curve."""

    name: str
    curve: list[tuple[float, float]]
    """As `TuneResult.curve`."""


@dataclass(frozen=True)
class TuneResult:
    """One tuning run of one network."""

    network: str
    target: str
    hardware: str
    checkpoint: str
    settings: dict[str, Any]
    tasks: list[TaskResult]
    latencies: list[LatencyStats]
    max_abs_difference: float | None
    """Of the tuned network's outputs from the reference; NaN if an output is, None if not compared."""
    tolerance: float
    """Largest absolute difference that counts as equal."""
    total_s: float
    stage_s: dict[str, float]
    """Where `total_s` went, stage by stage."""
    curve: list[tuple[float, float]]
    """(seconds since the start, estimated latency of the network with the best so far), both in seconds; the
    estimate is +inf until every task has a latency."""
    versions: dict[str, str]
    started_at: str
    """ISO 8601, with the time zone."""
    profile_s: dict[str, float] = field(default_factory=dict)
    """Seconds of work by step, added up over all processes that search and measure."""
    power_w: float | None = None
    """What the machine is assumed to draw while it tunes, None for no estimate of energy."""
    co2_kg_per_kwh: float | None = None
    """What a kilowatt-hour of it is assumed to emit."""
    rivals: list[RivalCurve] = field(default_factory=list)
    simulated: bool = False
    """Whether latencies were made up by a rehearsal, so that none of them is true."""

    def latency(self, name: str) -> LatencyStats | None:
        """The latencies under this name, None where it was not timed."""
        return next((stats for stats in self.latencies if stats.name == name), None)

    def speedup_over(self, name: str) -> float | None:
        """Median latency under `name` over that of the tuned network, None unless both were timed."""
        tuned, other = self.latency(TUNED), self.latency(name)
        return None if tuned is None or other is None else other.median_s / tuned.median_s

    @property
    def outputs_match(self) -> bool | None:
        """Whether outputs are equal within the tolerance (NaN never is), None if not compared."""
        return None if self.max_abs_difference is None else self.max_abs_difference <= self.tolerance

    def shares(self) -> list[float | None]:
        """Each task's share of the time that the network spends in its tasks, in the order of `tasks`."""
        times = [task.network_s for task in self.tasks]
        total = sum(time for time in times if time is not None)
        return [None if time is None else time / total for time in times]

    def to_json(self) -> dict[str, Any]:
        """JSON-able form; a failed candidate's latency becomes null, other infinities and NaN a string."""
        document = asdict(self)
        for task in document["tasks"]:
            task["measured_latencies_s"] = [
                latency if latency < math.inf else None for latency in task["measured_latencies_s"]
            ]
        return {"schema_version": SCHEMA_VERSION, **_jsonable(document)}

    @classmethod
    def from_json(cls, document: Any) -> TuneResult:
        """Inverse of `to_json`; raises ResultFormatError."""
        if not isinstance(document, Mapping):
            raise ResultFormatError(f"the result is a {type(document).__name__}: expected a JSON object")
        version = document.get("schema_version")
        if version != SCHEMA_VERSION:
            raise ResultFormatError(
                f"schema_version={version!r}: this release reads {SCHEMA_VERSION}; "
                "use the release that wrote the file, or tune again"
            )
        values = {name: value for name, value in document.items() if name != "schema_version"}
        try:
            difference = values.get("max_abs_difference")
            return _build(
                cls,
                values
                | {
                    "tasks": [_task(task) for task in values.get("tasks", [])],
                    "latencies": [_build(LatencyStats, stats) for stats in values.get("latencies", [])],
                    "curve": _points(values.get("curve", [])),
                    "max_abs_difference": None if difference is None else float(difference),
                    "rivals": [
                        _build(RivalCurve, {**rival, "curve": _points(rival.get("curve", []))})
                        for rival in values.get("rivals", [])
                    ],
                },
            )
        except ResultFormatError:
            raise
        except (AttributeError, TypeError, ValueError) as error:
            raise ResultFormatError(f"the result holds a value of the wrong kind: {error}") from error


def save_result(result: TuneResult, path: Path) -> None:
    """Writes the result as JSON."""
    text = json.dumps(result.to_json(), indent=1, allow_nan=False)
    path.write_text(text + "\n", encoding="utf-8")


def load_result(path: Path) -> TuneResult:
    """Reads what `save_result` wrote; raises ResultFormatError, which names the file."""
    try:
        return TuneResult.from_json(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise ResultFormatError(f"{path}: {error.strerror}; give the report.json of a tuning run") from error
    except ResultFormatError as error:
        raise ResultFormatError(f"{path}: {error}") from error
    except ValueError as error:
        raise ResultFormatError(
            f"{path}: not JSON ({error}); give the report.json of a tuning run"
        ) from error


_Record = TypeVar("_Record")


def _build(record: type[_Record], values: Mapping[str, Any]) -> _Record:
    """An instance of the dataclass `record`; ResultFormatError names missing and unknown fields."""
    known = fields(record)  # type: ignore[arg-type]
    expected = {f.name for f in known if f.default is MISSING and f.default_factory is MISSING}
    missing, unknown = sorted(expected - set(values)), sorted(set(values) - {f.name for f in known})
    if missing or unknown:
        raise ResultFormatError(
            f"{record.__name__} lacks the fields {missing} and has the unknown fields {unknown}; "
            "give a report.json as a tuning run wrote it"
        )
    return record(**values)


def _task(values: Mapping[str, Any]) -> TaskResult:
    latencies = [
        math.inf if latency is None else latency for latency in values.get("measured_latencies_s", [])
    ]
    scores = [float(score) for score in values.get("predicted_scores", [])]
    return _build(TaskResult, {**values, "measured_latencies_s": latencies, "predicted_scores": scores})


def _points(curve: Any) -> list[tuple[float, float]]:
    return [(float(elapsed), float(latency)) for elapsed, latency in curve]


def _jsonable(value: Any) -> Any:
    """Plain JSON: NumPy values become Python's, NaN and infinity strings for `float`, the rest text."""
    if isinstance(value, Mapping):
        return {str(key): _jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_jsonable(item) for item in value]
    if hasattr(value, "tolist"):
        return _jsonable(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
