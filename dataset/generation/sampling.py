"""Sampling of one task: its sampler, asked for a round at a time, in plain values.

The same class serves a sampler process and a run without one; see `samplers`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from tvm.target import Target

from ...compiler.replay import candidate_module_json, replay
from ..hardware import Hardware
from ..measure import MeasureOutcome
from ..records.schema import FailureKind, Record, TaskRow
from ..records.stored_tasks import stored_task
from ..sampling.programs import LiveProgram, SamplerSetting, make_program_sampler
from ..sampling.programs.config import ProgramSamplingConfig

_EMPTY_ROUNDS = 3
"""Consecutive rounds with only measured candidates after which the space counts as exhausted."""


@dataclass(frozen=True)
class SamplingRequest:
    """Task to sample, with its measurements so far; all fields are JSON values.

    `row` holds the fields of its TaskRow. `traces` are the task's traces for the database sampler. `earlier`
    are trace, latencies, failure and message of records, in the order of measuring. `hardware` describes the
    device, as JSON.
    """

    row: Mapping[str, Any]
    per_round: int
    seed: int
    traces: Sequence[str] = ()
    earlier: Sequence[Sequence[Any]] = ()
    hardware: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def measured_values(record: Record) -> list[Any]:
    """Entry of `SamplingRequest.earlier` for a record."""
    failure = record.failure.value if record.failure else None
    return [record.trace, list(record.run_secs), failure, record.failure_message]


def outcome_values(outcome: MeasureOutcome) -> list[Any]:
    """Latencies, failure and message of an outcome as JSON values, from which a sampler learns."""
    return [list(outcome.run_secs), outcome.failure.value if outcome.failure else None, outcome.message]


@dataclass(frozen=True)
class SampledRound:
    """Candidates that a round proposes as (trace JSON, module JSON); none if the space is exhausted.

    `rejected` counts the invalid candidates of the task so far by cause. `dropped` counts the rows of
    decisions outside the limits of a GPU, which do not count as candidates.
    """

    proposed: Sequence[tuple[str, str]] = ()
    rejected: Mapping[str, int] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> SampledRound:
        proposed = [(trace, module) for trace, module in values["proposed"]]
        return cls(proposed, values["rejected"], values["dropped"])


class TaskSampling:
    """Sampler of a task between rounds."""

    def __init__(self, config: ProgramSamplingConfig, target: Target, request: SamplingRequest) -> None:
        """Raises NoDesignSpaceError if the task has nothing to tune, and SamplingError."""
        # Scorers without data rate at random, by NumPy's global state; other tasks may use it in between.
        self._random_state = np.random.RandomState(request.seed).get_state()
        with self._own_randomness():
            self._sampler = make_program_sampler(
                config,
                SamplerSetting(
                    stored_task(TaskRow(**request.row)),
                    target,
                    per_round=request.per_round,
                    seed=request.seed + len(request.earlier),
                    threads=1,
                ),
                traces=request.traces,
                hardware=Hardware.from_json(request.hardware) if request.hardware else None,
            )
        self._waiting: list[LiveProgram] = []
        self._sampler.mark_measured(trace for trace, *_ in request.earlier)
        if config.uses_scorer:
            replayed = [
                (replay(self._sampler.context, trace), trace, outcome) for trace, *outcome in request.earlier
            ]
            fitting = [
                (LiveProgram(trace, program), _outcome(outcome))
                for program, trace, outcome in replayed
                if program is not None
            ]
            self._sampler.learn([program for program, _ in fitting], [outcome for _, outcome in fitting])

    def next_round(self, outcomes: Sequence[Sequence[Any]] = ()) -> SampledRound:
        """Proposals of the next round, after learning from the `outcome_values` of the last one."""
        with self._own_randomness():
            if outcomes:
                self._sampler.learn(self._waiting, [_outcome(outcome) for outcome in outcomes])
            drawn = (self._sampler.propose() for _ in range(_EMPTY_ROUNDS))
            self._waiting = next(filter(None, drawn), [])
        return SampledRound(
            [(trace, candidate_module_json(program)) for trace, program in self._waiting],
            dict(self._sampler.rejected),
            dict(self._sampler.dropped),
        )

    @contextmanager
    def _own_randomness(self) -> Iterator[None]:
        before = np.random.get_state()
        np.random.set_state(self._random_state)
        try:
            yield
        finally:
            self._random_state = np.random.get_state()
            np.random.set_state(before)


def _outcome(values: Sequence[Any]) -> MeasureOutcome:
    run_secs, failure, message = values
    return MeasureOutcome(tuple(run_secs), FailureKind(failure) if failure else None, message or "")
