"""What goes to a measuring worker and what comes back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from ...errors import UserError
from ..records import FailureKind, latency_of


class MeasureConfigError(UserError, ValueError):
    """A setting of the measurement cannot be."""


@dataclass(frozen=True)
class MeasureConfig:
    """How a candidate is built and timed; the defaults suit programs between 10 us and 1 s on a CPU.

    A candidate runs once to warm up. If that run took longer than `slow_factor` times the best latency of
    its task so far, it is the measurement. Otherwise groups of `repeats` runs follow, with the caches flushed
    before each run, until their spread (median over minimum, less one) is at most `spread` or `groups` are
    done or `budget_s` is spent; where the first run took as long as that, one more run is all.
    """

    build_timeout_s: float = 10.0
    run_timeout_s: float = 5.0
    repeats: int = 3
    groups: int = 4
    spread: float = 0.03
    budget_s: float = 0.25
    # One-Shot Tuner section 5 leaves programs over 20x slower than the best out of training.
    slow_factor: float = 20.0
    cache_flush: bool = True

    def __post_init__(self) -> None:
        for name in ("build_timeout_s", "run_timeout_s", "repeats", "groups", "budget_s"):
            if getattr(self, name) <= 0:
                raise MeasureConfigError(f"measure.{name}={getattr(self, name)}: must be positive")
        if self.slow_factor <= 1:
            raise MeasureConfigError(f"measure.slow_factor={self.slow_factor}: must be over 1")


@dataclass(frozen=True)
class MeasureJob:
    """One candidate to build and time.

    `module` is its scheduled module as TVM's JSON, `best_latency_s` the best latency of its task so far;
    jobs of one call with the same `task` share what they find. Where `reference` gives the unscheduled
    module, the outputs of both are compared. `keep_built` is for a module that will come again; `device` asks
    for one of several devices; `count_bytes` for what the outcome's `moved_bytes` says.
    """

    module: str
    best_latency_s: float = math.inf
    reference: str | None = None
    keep_built: bool = False
    device: int | None = None
    task: str = ""
    count_bytes: bool = False

    @property
    def key(self) -> str:
        """Names the module."""
        return content_key(self.module)

    @property
    def reference_key(self) -> str:
        """Names the reference, empty where there is none."""
        return content_key(self.reference) if self.reference is not None else ""


def content_key(text: str) -> str:
    """16 hex digits of a text."""
    return sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class MeasureOutcome:
    """Either `run_secs`, the repeats in seconds, or a typed failure.

    `device` numbers the device of the executor that ran it; `simulated` tells that none did. `moved_bytes`
    are what one more run fetched from memory by the counters of the CPU; None where nothing was asked or
    could be counted: on a GPU or through RPC, of a program that was cut short, without counters.
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

    @property
    def latency_s(self) -> float:
        """`latency_of` the repeats."""
        return latency_of(self.run_secs)

    def with_repeats_of(self, again: MeasureOutcome) -> MeasureOutcome:
        """This one and a later one of the same candidate: the repeats of both, or the failure of that one."""
        if again.failure is not None:
            return again
        return replace(
            self,
            run_secs=self.run_secs + again.run_secs,
            build_s=self.build_s + again.build_s,
            run_s=self.run_s + again.run_s,
        )


def outcome_of_run(reply: Mapping[str, Any], build_s: float, device: int = 0) -> MeasureOutcome:
    """The outcome that a worker's reply to a timing request stands for."""
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
