"""Strategies that draw their candidates from a program sampler of `dataset.sampling.programs`."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tvm.s_tir import meta_schedule as ms

from ...compiler.replay import RejectedError, replay_or_reject
from ...dataset.measure import MeasureOutcome
from ...dataset.records.schema import FailureKind
from ...dataset.sampling.programs import (
    AnnealingConfig,
    AnnealingSampler,
    EvolutionaryConfig,
    LiveProgram,
    LivePrograms,
    ProgramSampler,
    RandomSampler,
    evolutionary_sampler,
)
from ...dataset.sampling.programs.counts import DUPLICATE, CandidateCounts
from ..search.loop import RoundBudget
from .base import Strategy, StrategySetting

QUICK_PROPOSALS = 16
"""Number of candidates in a quick round, from a short search or drawn at random."""

_FAILED = MeasureOutcome(failure=FailureKind.RUN_ERROR)


class SampledStrategy(Strategy):
    """Wraps a program sampler as a strategy; both read and extend the known candidates of the sampler.

    If the sampler does not find an initial population, candidates are drawn at random: most programs exceed
    the limits of a GPU.
    """

    def __init__(self, sampler: ProgramSampler, setting: StrategySetting) -> None:
        self._sampler = sampler
        self._setting = setting
        self._at_random: RandomSampler | None = None
        self._measured = False
        self._starts = CandidateCounts()

    @property
    def context(self) -> ms.TuneContext:
        """See Strategy."""
        return self._sampler.context

    @property
    def counts(self) -> CandidateCounts:
        """See Strategy."""
        counts = self._sampler.counts + self._starts
        return counts if self._at_random is None else counts + self._at_random.counts

    def take_starts(self, starts: Sequence[str]) -> list[LiveProgram]:
        """See Strategy. The trace that TVM made of a candidate identifies it."""
        found: LivePrograms = {}
        rejected: Counter[str] = Counter()
        for start in starts:
            try:
                trace, program = LiveProgram.of(replay_or_reject(self.context, start))
            except RejectedError as error:
                rejected[str(error)] += 1
                continue
            if trace in self._sampler.known or trace in found:
                rejected[DUPLICATE] += 1
            else:
                found[trace] = program
        self._starts += CandidateCounts(tried=len(starts), proposed=len(found), rejected=rejected)
        self._sampler.known.add(found)
        return [LiveProgram(*item) for item in found.items()]

    def propose(self, budget: RoundBudget) -> list[LiveProgram]:
        """See Strategy."""
        found = self._propose_quickly() if budget.quick else self._sampler.propose()
        if not found and (self._at_random or not self._measured):
            found = self._draw_random()
        return found

    def mark_measured(self, traces: Iterable[str]) -> None:
        """See Strategy."""
        traces = list(traces)
        self._measured = self._measured or bool(traces)
        self._sampler.known.add(traces)

    def learn(self, measured: Sequence[LiveProgram], latencies_s: Mapping[str, float]) -> None:
        """See Strategy."""
        outcomes = [
            MeasureOutcome((latencies_s[trace],)) if math.isfinite(latencies_s[trace]) else _FAILED
            for trace, _ in measured
        ]
        self._sampler.learn(measured, outcomes)

    def _propose_quickly(self) -> list[LiveProgram]:
        """Candidates of a quick round. Any good candidate brings most of the gain over plain loops."""
        return self._draw_random()

    def _draw_random(self) -> list[LiveProgram]:
        if self._at_random is None:
            self._at_random = RandomSampler(replace(self._setting, per_round=QUICK_PROPOSALS))
        return self._at_random.propose()


class DescendingSampler(ProgramSampler):
    """Program sampler with later candidates that descend from earlier ones."""

    @abstractmethod
    def descend_from(self, traces: Iterable[str]) -> None:
        """Makes candidates parents of later candidates before their measurement."""

    @abstractmethod
    def propose_quickly(self, count: int) -> list[LiveProgram]:
        """Proposes `count` candidates of a short search."""


class DescendingStrategy(SampledStrategy):
    """Wraps a sampler with descending candidates as a strategy."""

    _sampler: DescendingSampler

    def take_starts(self, starts: Sequence[str]) -> list[LiveProgram]:
        """See Strategy. Later candidates also descend from start candidates."""
        found = super().take_starts(starts)
        self._sampler.descend_from(trace for trace, _ in found)
        return found

    def _propose_quickly(self) -> list[LiveProgram]:
        return self._sampler.propose_quickly(QUICK_PROPOSALS)


class AnnealingStrategy(SampledStrategy):
    """Parallel annealing chains of MetaSchedule mutations (One-Shot Tuner, section 4.2)."""

    Config = AnnealingConfig

    @classmethod
    def make(cls, config: Any, setting: StrategySetting) -> Strategy:
        """See Strategy."""
        return cls(AnnealingSampler(setting, config), setting)


class EvolutionaryStrategy(SampledStrategy):
    """Evolution by MetaSchedule on a CPU, over rows of decisions on a GPU (One-Shot Tuner, section 4.2)."""

    Config = EvolutionaryConfig

    @classmethod
    def make(cls, config: Any, setting: StrategySetting) -> Strategy:
        """See Strategy."""
        return cls(evolutionary_sampler(setting, config), setting)
