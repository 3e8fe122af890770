"""Exploration-based sampling on the trajectory of simulated annealing.

One-Shot Tuner section 4.1.2 explores with AutoTVM's simulated annealing (Algorithm 1, line 18). AutoTVM walks
over knob indices; this sampler walks with MetaSchedule's mutators, or on a GPU over rows of decisions within
the limits of a thread block (`RowSpace`). Each step replays a trace, so the defaults are smaller than the 512
chains of 160 steps in Table 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tvm.s_tir import meta_schedule as ms

from ....compiler.host.interruption import interrupts_deferred
from ....compiler.tvm_compat import mutate
from .counts import DUPLICATE, LOWER_SCORE
from .known_candidates import LiveProgram, LivePrograms
from .sampler import ProgramSampler
from .setting import SamplerSetting
from .strategy_config import StrategyConfig


@dataclass(frozen=True)
class AnnealingConfig(StrategyConfig):
    """Chains of a round, which continue from those of the previous round, as in AutoTVM.

    The defaults are those of `foretune tune`; One-Shot Tuner's are in its section 4.2, Table 2.
    """

    name: str = "annealing"
    chains: int = 40
    steps: int = 2
    # Temperature of the first step, in units of the score; it decreases linearly to zero.
    temperature: float = 1.0
    # Number of steps without a new best score after which a round ends (Table 2: 50).
    early_stop: int | None = None

    def __post_init__(self) -> None:
        self.check_at_least({"chains": 1, "steps": 1, "temperature": 0, "early_stop": 1})


class AnnealingSampler(ProgramSampler):
    """Sampler that walks several chains of mutations and proposes the best-scored programs on the way."""

    name = "annealing"
    needs_scorer = True
    scorer: ms.CostModel

    def __init__(self, setting: SamplerSetting, config: AnnealingConfig) -> None:
        """See `ProgramSampler`."""
        super().__init__(setting)
        self._config = config
        mutators = self.context.space_generator.mutator_probs.items()
        self._mutators = [mutator for mutator, _ in mutators]
        weights = np.array([float(weight) for _, weight in mutators])
        self._shares = weights / weights.sum()
        self._chains: list[LiveProgram] = []
        self._waiting: set[str] = set()  # visited, counted as LOWER_SCORE, and not proposed yet

    def _draw(self) -> LivePrograms:
        random_count = round(self._random_share * self.per_round)
        visited = self._walk()
        by_score = sorted(visited, key=lambda trace: -visited[trace][0])
        best = [trace for trace in by_score if trace not in self.known][: self.per_round - random_count]
        chosen = {trace: visited[trace][1] for trace in best}
        self.passed_over[LOWER_SCORE] -= len(self._waiting & chosen.keys())
        self._waiting -= chosen.keys()
        # Random candidates fill the rest of the round if the walk found too few.
        return self._draw_random_new(self.per_round - len(chosen), chosen) | chosen

    def _walk(self) -> dict[str, tuple[float, ms.MeasureCandidate]]:
        """Programs visited in this round: score and live program by trace."""
        config = self._config
        missing = config.chains - len(self._chains)
        drawn = (self._draw_random() for _ in range(missing))
        started = [start for start in drawn if start is not None]
        self._count(started)
        chains = self._chains + started
        scores = self._score(chains)
        visited = _with_scores(chains, scores)
        best, since_best = scores.max(initial=-np.inf), 0
        for step in range(config.steps):
            if config.early_stop is not None and since_best >= config.early_stop:
                break
            temperature = config.temperature * (1 - step / config.steps)
            moved = [(number, there) for number, here in enumerate(chains) if (there := self._move(here))]
            self._count([there for _, there in moved])
            there_scores = self._score([there for _, there in moved])
            visited |= _with_scores([there for _, there in moved], there_scores)
            since_best = 0 if there_scores.max(initial=-np.inf) > best else since_best + 1
            best = there_scores.max(initial=best)
            here_scores = scores[[number for number, _ in moved]]
            accepted = self.rng.random(len(moved)) < acceptance_probability(
                there_scores - here_scores, temperature
            )
            for (number, there), score, accept in zip(moved, there_scores, accepted, strict=True):
                if accept:
                    chains[number], scores[number] = there, score
        self._chains = chains
        return visited

    def _count(self, visited: Sequence[LiveProgram]) -> None:
        """Counts valid programs as passed over, until they are proposed."""
        for trace, _ in visited:
            known = trace in self.known or trace in self._waiting
            self.passed_over[DUPLICATE if known else LOWER_SCORE] += 1
            if not known:
                self._waiting.add(trace)

    def _move(self, here: LiveProgram) -> LiveProgram | None:
        """Neighbour by one mutation; None if the mutator has none or the program is rejected."""
        if self.rows is not None and (changed := self.rows.changed(here.trace, self.rng)) is not None:
            return self._replay(changed)
        mutator = self._mutators[self.rng.choice(len(self._mutators), p=self._shares)]
        trace = mutate(mutator, here.program.sch.trace, self._draw_seed())
        return None if trace is None else self._instantiate(trace)

    def _score(self, visited: Sequence[LiveProgram]) -> NDArray[np.float64]:
        if not visited:
            return np.zeros(0)
        with interrupts_deferred():
            return self.scorer.predict(self.context, [program for _, program in visited])


def acceptance_probability(gain: NDArray[np.float64], temperature: float) -> NDArray[np.float64]:
    """Metropolis acceptance probability of moves with a score change of `gain` [n]: 1 for improvements."""
    if temperature == 0:
        return (gain >= 0).astype(np.float64)
    return np.exp(np.minimum(gain / temperature, 0.0))


def _with_scores(
    visited: Sequence[LiveProgram], scores: NDArray[np.float64]
) -> dict[str, tuple[float, ms.MeasureCandidate]]:
    return {trace: (float(score), program) for (trace, program), score in zip(visited, scores, strict=True)}
