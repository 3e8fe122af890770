"""Exploration-based sampling on the trajectory of simulated annealing.

One-Shot Tuner section 4.1.2 explores with AutoTVM's simulated annealing (Algorithm 1, line 18). AutoTVM walks
over knob indices; this sampler walks with MetaSchedule's mutators, or on a GPU over rows of decisions within
the limits of a thread block (`RowSpace`). Each step replays a trace, so the defaults are smaller than the 512
chains of 160 steps in Table 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from ....compiler.host.interruption import interrupts_deferred
from ....compiler.task import Task
from ....compiler.tvm_compat import mutate
from .counts import DUPLICATE, LOWER_SCORE
from .sampler import ProgramSampler, Proposal, SamplingError


@dataclass(frozen=True)
class AnnealingConfig:
    """Settings of the walk of a round, which continues from the previous chains, as in AutoTVM."""

    chains: int = 20
    steps: int = 5
    # Temperature of the first step, in units of the score; it decreases linearly to zero.
    temperature: float = 1.0
    # Fraction of a round that is drawn at random instead of by score.
    random_share: float = 0.2
    # Number of steps without a new best score after which a round ends (Table 2: 50).
    early_stop: int | None = None

    def __post_init__(self) -> None:
        for name in ("chains", "steps", "early_stop"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise SamplingError(f"annealing.{name}={value}: must be at least 1")
        if self.temperature < 0:
            raise SamplingError(f"annealing.temperature={self.temperature}: must not be negative")
        if not 0 <= self.random_share <= 1:
            raise SamplingError(f"annealing.random_share={self.random_share}: must be in [0, 1]")


class AnnealingSampler(ProgramSampler):
    """Sampler that walks several chains of mutations and proposes the best-scored programs on the way."""

    name = "annealing"
    scorer: ms.CostModel

    def __init__(
        self,
        task: Task,
        target: Target,
        *,
        scorer: ms.CostModel,
        config: AnnealingConfig,
        per_round: int,
        seed: int,
        space: ms.SpaceGenerator | str = "post-order-apply",
        threads: int | None = None,
    ) -> None:
        """See `ProgramSampler`."""
        super().__init__(
            task, target, per_round=per_round, seed=seed, scorer=scorer, space=space, threads=threads
        )
        self._config = config
        mutators = self.context.space_generator.mutator_probs.items()
        self._mutators = [mutator for mutator, _ in mutators]
        weights = np.array([float(weight) for _, weight in mutators])
        self._shares = weights / weights.sum()
        self._chains: list[Proposal] = []
        self._waiting: set[str] = set()  # visited, counted as LOWER_SCORE, and not proposed yet

    def _draw(self) -> Iterable[Proposal]:
        random_count = round(self._config.random_share * self.per_round)
        visited = self._walk()
        by_score = sorted(visited, key=lambda trace: -visited[trace][0])
        best = [trace for trace in by_score if trace not in self._known][: self.per_round - random_count]
        chosen = {trace: visited[trace][1] for trace in best}
        self.passed_over[LOWER_SCORE] -= len(self._waiting & chosen.keys())
        self._waiting -= chosen.keys()
        # Random candidates fill up what the walk did not find.
        return (self._draw_random_new(self.per_round - len(chosen), chosen) | chosen).items()

    def _walk(self) -> dict[str, tuple[float, ms.MeasureCandidate]]:
        """Programs visited in this round: score and candidate by trace."""
        config = self._config
        missing = config.chains - len(self._chains)
        drawn = (self._draw_random() for _ in range(missing))
        started = [start for start in drawn if start is not None]
        self._count(started)
        chains = self._chains + started
        scores = self._score(chains)
        visited = _scored(chains, scores)
        best, since_best = scores.max(initial=-np.inf), 0
        for step in range(config.steps):
            if config.early_stop is not None and since_best >= config.early_stop:
                break
            temperature = config.temperature * (1 - step / config.steps)
            moved = [(number, there) for number, here in enumerate(chains) if (there := self._move(here))]
            self._count([there for _, there in moved])
            there_scores = self._score([there for _, there in moved])
            visited |= _scored([there for _, there in moved], there_scores)
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

    def _count(self, visited: Sequence[Proposal]) -> None:
        """Counts valid programs as passed over, until they are proposed."""
        for trace, _ in visited:
            known = trace in self._known or trace in self._waiting
            self.passed_over[DUPLICATE if known else LOWER_SCORE] += 1
            if not known:
                self._waiting.add(trace)

    def _move(self, here: Proposal) -> Proposal | None:
        """Neighbour by one mutation; None if the mutator has none or the program is rejected."""
        if self.rows is not None and (changed := self.rows.changed(here[0], self.rng)) is not None:
            return self._replay(changed)
        mutator = self._mutators[self.rng.choice(len(self._mutators), p=self._shares)]
        trace = mutate(mutator, here[1].sch.trace, self._draw_seed())
        return None if trace is None else self._instantiate(trace)

    def _score(self, proposals: Sequence[Proposal]) -> NDArray[np.float64]:
        if not proposals:
            return np.zeros(0)
        with interrupts_deferred():
            return self.scorer.predict(self.context, [candidate for _, candidate in proposals])


def acceptance_probability(gain: NDArray[np.float64], temperature: float) -> NDArray[np.float64]:
    """Metropolis acceptance probability of moves with a score change of `gain` [n]: 1 for improvements."""
    if temperature == 0:
        return (gain >= 0).astype(np.float64)
    return np.exp(np.minimum(gain / temperature, 0.0))


def _scored(
    proposals: Sequence[Proposal], scores: NDArray[np.float64]
) -> dict[str, tuple[float, ms.MeasureCandidate]]:
    return {
        trace: (float(score), candidate) for (trace, candidate), score in zip(proposals, scores, strict=True)
    }
