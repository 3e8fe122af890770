"""The compared searches, each with the same number of rated programs."""

from __future__ import annotations

import numpy as np
from foretune.inference.strategies.draft.population import Population
from foretune.models.architectures.explorer import MODES, Explorer
from foretune.training.exploration.config import JudgingConfig
from foretune.training.exploration.environment import Environment, TaskSpace
from foretune.training.exploration.walks import Visited, explore

GENERATIONS = 4
MUTATION = 0.7
"""Share of children that evolution mutates, as in the strategy `draft`."""


class Searches:
    """Searches of one sketch, from the same random programs."""

    def __init__(
        self,
        environment: Environment,
        explorer: Explorer,
        space: TaskSpace,
        candidates: int,
        seed: tuple[int, ...],
    ) -> None:
        self._environment = environment
        self._explorer = explorer
        self._space = space
        self._candidates = candidates
        self._seed = seed

    def all(self) -> dict[str, Visited]:
        """Programs that each search rates, by the name of the search."""
        return {
            "random": self.random(),
            "evolutionary": self.evolutionary(),
            "random_moves": self.walks(MODES[0], epsilon=1.0),
            **{f"dqn, {mode}": self.walks(mode) for mode in MODES},
        }

    def random(self) -> Visited:
        """Programs drawn at random."""
        drawn = self._drawn(self._candidates)
        return Visited(drawn, self._environment.observe([self._space], [drawn]).time)

    def evolutionary(self) -> Visited:
        """Evolution by the environment: a generation is a quarter of the programs."""
        space = self._space.space

        def rate(values: np.ndarray) -> np.ndarray:
            rated: np.ndarray = -self._environment.observe([self._space], [space.choices(values)]).time
            return rated

        population, rng = Population(space, rate), np.random.default_rng(self._seed)
        share = -(-self._candidates // GENERATIONS)
        population.add(self._drawn(share))
        while (left := self._candidates - len(population.scores)) > 0:
            children = population.children(min(share, left), MUTATION, rng)
            if not len(children):
                break
            population.add(children)
        return Visited(population.choices, -population.scores.astype(np.float64))

    def walks(self, mode: str, epsilon: float = 0.0) -> Visited:
        """Walks of the network; with `epsilon` 1 their moves are random."""
        config = JudgingConfig(candidates=self._candidates)
        return explore(
            self._environment,
            self._space,
            self._explorer,
            self._drawn(config.draws),
            count=self._candidates,
            walks=config.walks,
            mode=mode,
            epsilon=epsilon,
            rng=np.random.default_rng(self._seed),
        )

    def _drawn(self, count: int) -> np.ndarray:
        rng = np.random.default_rng(self._seed)
        drawn: np.ndarray = self._space.space.unique(self._space.draw(4 * self._candidates, rng))[:count]
        return drawn
