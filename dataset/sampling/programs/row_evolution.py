"""Exploration-based sampling (EBS) on a GPU: evolution of rows within the limits of a thread block.

One-Shot Tuner explores with AutoTVM's simulated annealing, guided by its scorer (section 4.1.2, Algorithm 1,
line 18). This sampler departs from it, and from MetaSchedule's evolutionary search, in two points. First,
children are rows of decisions that keep within the limits, because nearly all of MetaSchedule's children are
invalid on a GPU. Second, an untrained scorer rates no programs: the first round is drawn at random, since an
untrained model chooses no better.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from tvm.s_tir import meta_schedule as ms

from ....compiler.host.interruption import interrupts_deferred
from ....compiler.structure.row_space import RowSpace
from ....compiler.targets import is_cuda
from ...measure.job import MeasureOutcome
from .counts import DUPLICATE, LOWER_SCORE
from .evolutionary import EvolutionaryConfig, EvolutionarySampler
from .known_candidates import LiveProgram, LivePrograms
from .sampler import ProgramSampler
from .scorer import starts_untrained
from .setting import SamplerSetting

_MEASURED_SHARE, _EARLIER_SHARE = 0.2, 0.4
"""Shares of the first generation: the fastest measured programs, as in MetaSchedule, and programs that the
last round replayed and did not propose. The others are drawn at random."""

_CHILDREN_SHARE = 0.5
"""Children of a generation as a share of its size; the next parents are the best of all so far."""

_TRIES = 4
"""Children created for each wanted child, because some are known already."""


def evolutionary_sampler(setting: SamplerSetting, config: EvolutionaryConfig) -> ProgramSampler:
    """Evolution of rows on a GPU, and MetaSchedule's own on a CPU or if no sketch can be read as rows."""
    if is_cuda(setting.target):
        sampler = RowEvolutionSampler(setting, config)
        if sampler.rows is not None and sampler.rows.spaces:
            return sampler
    return EvolutionarySampler(setting, config)


class RowEvolutionSampler(ProgramSampler):
    """Sampler that evolves rows of decisions and proposes the programs of the highest scores."""

    name = "evolutionary"
    needs_scorer = True
    scorer: ms.CostModel
    rows: RowSpace

    def __init__(self, setting: SamplerSetting, config: EvolutionaryConfig) -> None:
        """See `ProgramSampler`; the target is a GPU."""
        super().__init__(setting)
        self._config = config
        self._is_informed = not starts_untrained(self.scorer)
        self._fastest: dict[str, tuple[float, ms.MeasureCandidate]] = {}
        self._earlier: LivePrograms = {}  # replayed, counted as LOWER_SCORE, not proposed

    def learn(self, measured: Sequence[LiveProgram], outcomes: Sequence[MeasureOutcome]) -> None:
        """Keep the fastest as parents, and update the scorer."""
        for (trace, program), outcome in zip(measured, outcomes, strict=True):
            if np.isfinite(outcome.latency_s):
                self._fastest[trace] = outcome.latency_s, program
        ranked = sorted(self._fastest.items(), key=lambda item: item[1][0])
        self._fastest = dict(ranked[: self._config.population_size])
        self._is_informed |= bool(measured)
        super().learn(measured, outcomes)

    def _draw(self) -> LivePrograms:
        if not self._is_informed:
            return self._draw_random_new(self.per_round)
        scores, programs = self._evolved()
        wanted = self.per_round - round(self._random_share * self.per_round)
        best = sorted((trace for trace in programs if trace not in self.known), key=lambda t: -scores[t])
        chosen = {trace: programs[trace] for trace in best[:wanted]}
        fresh = [trace for trace in best if trace not in self._earlier]
        self.passed_over[LOWER_SCORE] += len(fresh) - len(chosen)
        self._earlier = {
            trace: programs[trace] for trace in best[wanted : wanted + self._config.population_size]
        }
        return chosen | self._draw_random_new(self.per_round - len(chosen), programs)

    def _evolved(self) -> tuple[dict[str, float], LivePrograms]:
        """Scores and programs of all generations by trace, including their measured ancestors."""
        size = self._config.population_size
        parents = list(self._fastest.items())[: round(_MEASURED_SHARE * size)]
        programs = {trace: program for trace, (_, program) in parents}
        earlier = [item for item in self._earlier.items() if item[0] not in self.known]
        programs |= dict(earlier[: round(_EARLIER_SHARE * size)])
        programs |= self._draw_random_new(size - len(programs), programs)
        scores = self._scores_of(programs)
        generation = list(programs)
        for _ in range(self._config.generations):
            children = self._children(generation, scores, programs)
            if not children:
                break
            programs |= children
            scores |= self._scores_of(children)
            # The next parents are the best of all generations, because a generation may be worse than the
            # previous one.
            generation = sorted(programs, key=lambda trace: -scores[trace])[:size]
        return scores, programs

    def _children(
        self, generation: Sequence[str], scores: dict[str, float], programs: LivePrograms
    ) -> LivePrograms:
        """New programs by mutation or crossover of parents, which are drawn by their scores."""
        weights = _parent_probabilities(np.array([scores[trace] for trace in generation]))
        found: LivePrograms = {}
        asked: set[str] = set()
        wanted = max(round(_CHILDREN_SHARE * self._config.population_size), 1)
        for _ in range(_TRIES * wanted):
            if len(found) == wanted:
                break
            left, right = (generation[i] for i in self.rng.choice(len(generation), 2, p=weights))
            is_mutated = self.rng.random() < self._config.mutation_probability
            made = None if is_mutated else self.rows.crossed(left, right, self.rng)
            made = made or self.rows.changed(left, self.rng)
            if made is None or made in asked or made in programs or made in self.known:
                continue
            asked.add(made)
            if (child := self._replay(made)) is None:
                continue
            if child.trace in programs or child.trace in found or child.trace in self.known:
                self.passed_over[DUPLICATE] += 1
            else:
                found[child.trace] = child.program
        return found

    def _scores_of(self, programs: LivePrograms) -> dict[str, float]:
        if not programs:
            return {}
        with interrupts_deferred():
            scores = self.scorer.predict(self.context, list(programs.values()))
        return dict(zip(programs, map(float, scores), strict=True))


def _parent_probabilities(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probability [n] of becoming a parent: by score, as in MetaSchedule, and positive for the lowest."""
    shifted = scores - scores.min() + 1e-3 * (np.ptp(scores) + 1e-9)
    return np.asarray(shifted / shifted.sum(), dtype=np.float64)
