"""Jobs and outcomes of a measurement, and its settings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from ...errors import UserError
from ..records.schema import FailureKind, latency_of


class MeasureConfigError(UserError, ValueError):
    """A setting of the measurement is invalid."""


@dataclass(frozen=True)
class MeasureConfig:
    """Settings of building and timing; the defaults suit programs between 10 us and 1 s on a CPU.

    A candidate runs once to warm up. If this run takes more than `slow_factor` times the best latency of its
    task so far, it is the measurement. Otherwise groups of `repeats` runs follow, with a cache flush before
    each run. They end when the spread (median over minimum, minus 1) is at most `spread`, after `groups`
    groups, or after `budget_s`. If the first run alone takes longer than `budget_s`, one run follows.
    """

    build_timeout_s: float = 10.0
    run_timeout_s: float = 5.0
    repeats: int = 3
    groups: int = 4
    spread: float = 0.03
    budget_s: float = 0.25
    # One-Shot Tuner section 5 leaves programs more than 20x slower than the best out of training.
    slow_factor: float = 20.0
    cache_flush: bool = True

    def __post_init__(self) -> None:
        for name in ("build_timeout_s", "run_timeout_s", "repeats", "groups", "budget_s"):
            if getattr(self, name) <= 0:
                raise MeasureConfigError(f"measure.{name}={getattr(self, name)}: must be positive")
        if self.slow_factor <= 1:
            raise MeasureConfigError(f"measure.slow_factor={self.slow_factor}: must be greater than 1")


@dataclass(frozen=True)
class MeasureJob:
    """Candidate to build and time.

    `module` is the scheduled module as TVM's JSON. `best_latency_s` is the best latency of the task so far;
    jobs of one call with the same `task` share theirs. With `reference`, the unscheduled module, the outputs
    of both are compared. `keep_built` keeps the library for a module that will be measured again. `device`
    selects one of several devices. `count_bytes` requests the outcome's `moved_bytes`. `trace` is the
    candidate's canonical trace, by which a replay knows it; then `task` is its workload hash.
    """

    module: str
    best_latency_s: float = math.inf
    reference: str | None = None
    keep_built: bool = False
    device: int | None = None
    task: str = ""
    count_bytes: bool = False
    trace: str = ""

    @property
    def key(self) -> str:
        """Content hash of the module."""
        return content_key(self.module)

    @property
    def reference_key(self) -> str:
        """Content hash of the reference, empty without one."""
        return content_key(self.reference) if self.reference is not None else ""


def content_key(text: str) -> str:
    """16 hex digits of the text's SHA-256."""
    return sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class MeasureOutcome:
    """Repeated latencies `run_secs` in seconds, or a typed failure.

    `device` is the index of the device that ran the candidate; `simulated` marks a latency without a device.
    `moved_bytes` counts the bytes that one more run fetched from memory, by the CPU's counters. It is None if
    not requested or not countable: on a GPU, through RPC, for a program cut short, or without counters.
    `unchecked` means that the job has a reference that failed, so no outputs were compared.
    """

    run_secs: tuple[float, ...] = ()
    failure: FailureKind | None = None
    message: str = ""
    cut_short: bool = False
    build_s: float = 0.0
    run_s: float = 0.0
    device: int = 0
    simulated: bool = False
    moved_bytes: float | None = None
    unchecked: bool = False

    @property
    def latency_s(self) -> float:
        """Latency in seconds by `latency_of`, +inf after a failure."""
        return latency_of(self.run_secs)

    def merged_with(self, again: MeasureOutcome) -> MeasureOutcome:
        """Merge with a later outcome of the same candidate: all repeats, or the later failure."""
        if again.failure is not None:
            return again
        return replace(
            self,
            run_secs=self.run_secs + again.run_secs,
            build_s=self.build_s + again.build_s,
            run_s=self.run_s + again.run_s,
        )


def outcome_from_reply(reply: Mapping[str, Any], build_s: float, device: int = 0) -> MeasureOutcome:
    """Outcome from a worker's reply to a timing request."""
    failures = {"error": FailureKind.RUN_ERROR, "wrong_output": FailureKind.WRONG_OUTPUT}
    for field, kind in failures.items():
        if field in reply:
            return MeasureOutcome(failure=kind, message=reply[field], build_s=build_s, device=device)
    return MeasureOutcome(
        run_secs=tuple(reply["run_secs"]),
        cut_short=reply["cut_short"],
        build_s=build_s,
        run_s=reply["run_s"],
        device=device,
        simulated=reply.get("simulated", False),
        moved_bytes=reply.get("moved_bytes"),
    )
