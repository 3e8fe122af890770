"""`report.json`: a `TuneResult` as strict JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields
from pathlib import Path
from typing import Any, TypeVar

from ...errors import UserError
from ...files import write_whole
from .core_timeline import CoreSample
from .network_profile import CallTime, NetworkProfile
from .result import (
    Agreement,
    AlternativeResult,
    ComparisonRun,
    Contestant,
    NetworkOutcome,
    TaskResult,
    TuneResult,
)
from .written_library import WrittenLibrary

SCHEMA_VERSION = 1
"""Version of the layout of `report.json`, incremented when an old file can no longer be read."""

_Record = TypeVar("_Record")


class ResultFormatError(UserError, ValueError):
    """A file does not hold the result of a tuning run, or has another schema version."""


def save_result(result: TuneResult, path: Path) -> None:
    """Writes the result as JSON, whole or not at all. Raises CannotWriteError."""
    write_whole(path, json.dumps(result_to_json(result), indent=1, allow_nan=False) + "\n")


def load_result(path: Path) -> TuneResult:
    """Reads a file from `save_result`; raises ResultFormatError with the name of the file."""
    try:
        return result_from_json(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise ResultFormatError(f"{path}: {error.strerror}; give the report.json of a tuning run") from error
    except ResultFormatError as error:
        raise ResultFormatError(f"{path}: {error}") from error
    except ValueError as error:
        raise ResultFormatError(
            f"{path}: not JSON ({error}); give the report.json of a tuning run"
        ) from error


def load_comparison_runs(path: Path | None) -> list[ComparisonRun]:
    """The run in a file from `save_result`, for a comparison of curves; None without a path.

    Raises ResultFormatError.
    """
    if path is None:
        return []
    other = load_result(path)
    return [ComparisonRun(other.checkpoint or str(path), other.curve)]


def result_to_json(result: TuneResult) -> dict[str, Any]:
    """JSON-compatible form; a failed candidate's latency becomes null, other infinities and NaN strings."""
    document = asdict(result)
    for task in document["tasks"]:
        task["measured_latencies_s"] = [
            latency if latency < math.inf else None for latency in task["measured_latencies_s"]
        ]
    return {"schema_version": SCHEMA_VERSION, **_jsonable(document)}


def result_from_json(document: Any) -> TuneResult:
    """Inverse of `result_to_json`; raises ResultFormatError."""
    if not isinstance(document, Mapping):
        raise ResultFormatError(f"the result is a {type(document).__name__}: expected a JSON object")
    version = document.get("schema_version")
    if version != SCHEMA_VERSION:
        raise ResultFormatError(
            f"schema_version={version!r}: this release reads {SCHEMA_VERSION}; "
            "use the release that wrote the file, or tune again"
        )
    values = {name: value for name, value in document.items() if name != "schema_version"}
    if "comparison_runs" not in values:  # older files call them rivals
        values["comparison_runs"] = values.pop("rivals", [])
    if "latencies" in values:  # older files have these alone, timed in one process
        values["contestants"] = [{**stats, "own_process": False} for stats in values.pop("latencies")]
    try:
        difference = values.get("max_abs_difference")
        return _build(
            TuneResult,
            values
            | {
                "tasks": [_task(task) for task in values.get("tasks", [])],
                **{
                    name: [_contestant(each) for each in values.get(name, [])]
                    for name in ("contestants", "exported")
                },
                "curve": _points(values.get("curve", [])),
                "alternatives": [_build(AlternativeResult, each) for each in values.get("alternatives", [])],
                "networks": [_build(NetworkOutcome, each) for each in values.get("networks", [])],
                "agreement": _agreement(values.get("agreement")),
                "libraries": [_build(WrittenLibrary, each) for each in values.get("libraries", [])],
                "cores": [_build(CoreSample, each) for each in values.get("cores", [])],
                "network_profile": _network_profile(values.get("network_profile")),
                "max_abs_difference": None if difference is None else float(difference),
                "comparison_runs": [
                    _build(ComparisonRun, {**run, "curve": _points(run.get("curve", []))})
                    for run in values["comparison_runs"]
                ],
            },
        )
    except ResultFormatError:
        raise
    except (AttributeError, TypeError, ValueError) as error:
        raise ResultFormatError(f"the result holds a value of the wrong kind: {error}") from error


def _agreement(values: Mapping[str, Any] | None) -> Agreement | None:
    if values is None:
        return None
    # Older files contain only PyTorch as a rival.
    return _build(Agreement, {name.replace("pytorch_", "rival_"): value for name, value in values.items()})


def _network_profile(values: Mapping[str, Any] | None) -> NetworkProfile | None:
    if values is None:
        return None
    calls = [_build(CallTime, call) for call in values.get("calls", [])]
    return _build(NetworkProfile, {**values, "calls": calls})


def _build(record: type[_Record], values: Mapping[str, Any]) -> _Record:
    """Instance of the dataclass `record`; ResultFormatError names missing and unknown fields."""
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


def _contestant(values: Mapping[str, Any]) -> Contestant:
    difference = values.get("max_abs_difference")
    return _build(
        Contestant, {**values, "max_abs_difference": None if difference is None else float(difference)}
    )


def _points(curve: Any) -> list[tuple[float, float]]:
    return [(float(elapsed), float(latency)) for elapsed, latency in curve]


def _jsonable(value: Any) -> Any:
    """Plain JSON: NumPy values become Python values, NaN and infinity strings for `float`, the rest text."""
    if isinstance(value, Mapping):
        return {str(key): _jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_jsonable(item) for item in value]
    if hasattr(value, "tolist"):
        return _jsonable(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
