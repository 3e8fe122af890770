"""Exploration-based sampling on the trajectory of simulated annealing.

One-Shot Tuner section 4.1.2 explores with AutoTVM's simulated annealing (Algorithm 1, line 18). Its walk over
knob indices is a walk over MetaSchedule's mutators here, and a step costs the replay of a trace, so the
defaults walk less than the 512 chains of 160 steps in Table 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from ..interruption import interrupts_deferred
from ..task import Task
from ..tvm_compat import mutate
from .sampler import ProgramSampler, Proposal, SamplingError


@dataclass(frozen=True)
class AnnealingConfig:
    """The walk of a round; the next one goes on from where its chains ended, as AutoTVM's do."""

    chains: int = 20
    steps: int = 5
    # Of the first step, in units of the score; it falls to zero linearly.
    temperature: float = 1.0
    # Share of a round drawn at random instead of by score.
    random_share: float = 0.2
    # A round ends early after so many steps that found none better than the best visited (Table 2: 50).
    early_stop: int | None = None

    def __post_init__(self) -> None:
        for name in ("chains", "steps", "early_stop"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise SamplingError(f"{name}={value} of annealing: must be at least 1")
        if self.temperature < 0:
            raise SamplingError(f"temperature={self.temperature} of annealing: must not be negative")
        if not 0 <= self.random_share <= 1:
            raise SamplingError(f"random_share={self.random_share} of annealing: must be in [0, 1]")


class AnnealingSampler(ProgramSampler):
    """Walks chains of mutations side by side and proposes the best predicted programs that they visited."""

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
        """See ProgramSampler."""
        super().__init__(
            task, target, per_round=per_round, seed=seed, scorer=scorer, space=space, threads=threads
        )
        self._config = config
        mutators = self.context.space_generator.mutator_probs.items()
        self._mutators = [mutator for mutator, _ in mutators]
        weights = np.array([float(weight) for _, weight in mutators])
        self._shares = weights / weights.sum()
        self._chains: list[Proposal] = []

    def _draw(self) -> Iterable[Proposal]:
        random_count = round(self._config.random_share * self.per_round)
        visited = self._walk()
        by_score = sorted(visited, key=lambda trace: -visited[trace][0])
        best = [trace for trace in by_score if trace not in self._known][: self.per_round - random_count]
        chosen = {trace: visited[trace][1] for trace in best}
        # What the walk left over goes to chance too.
        return (self._draw_random_new(self.per_round - len(chosen)) | chosen).items()

    def _walk(self) -> dict[str, tuple[float, ms.MeasureCandidate]]:
        """Every program visited from the start of the round on: its score and candidate by trace."""
        config = self._config
        missing = config.chains - len(self._chains)
        drawn = (self._draw_random() for _ in range(missing))
        chains = self._chains + [start for start in drawn if start is not None]
        scores = self._score(chains)
        visited = _scored(chains, scores)
        best, since_best = scores.max(initial=-np.inf), 0
        for step in range(config.steps):
            if config.early_stop is not None and since_best >= config.early_stop:
                break
            temperature = config.temperature * (1 - step / config.steps)
            moved = [(number, there) for number, here in enumerate(chains) if (there := self._move(here))]
            there_scores = self._score([there for _, there in moved])
            visited |= _scored([there for _, there in moved], there_scores)
            since_best = 0 if there_scores.max(initial=-np.inf) > best else since_best + 1
            best = there_scores.max(initial=best)
            here_scores = scores[[number for number, _ in moved]]
            accepted = self.rng.random(len(moved)) < acceptance(there_scores - here_scores, temperature)
            for (number, there), score, accept in zip(moved, there_scores, accepted, strict=True):
                if accept:
                    chains[number], scores[number] = there, score
        self._chains = chains
        return visited

    def _move(self, here: Proposal) -> Proposal | None:
        """A neighbour by one mutation; None where the mutator has none or the program is refused."""
        mutator = self._mutators[self.rng.choice(len(self._mutators), p=self._shares)]
        trace = mutate(mutator, here[1].sch.trace, self._draw_seed())
        return None if trace is None else self._instantiate(trace)

    def _score(self, proposals: Sequence[Proposal]) -> NDArray[np.float64]:
        if not proposals:
            return np.zeros(0)
        with interrupts_deferred():
            return self.scorer.predict(self.context, [candidate for _, candidate in proposals])


def acceptance(gain: NDArray[np.float64], temperature: float) -> NDArray[np.float64]:
    """Metropolis probability of a move that changes the score by `gain` [n]: 1 uphill."""
    if temperature == 0:
        return (gain >= 0).astype(np.float64)
    return np.exp(np.minimum(gain / temperature, 0.0))


def _scored(
    proposals: Sequence[Proposal], scores: NDArray[np.float64]
) -> dict[str, tuple[float, ms.MeasureCandidate]]:
    return {
        trace: (float(score), candidate) for (trace, candidate), score in zip(proposals, scores, strict=True)
    }
