"""Searches with an explorer compared with random searches, at an equal number of rated programs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...models.architectures.explorer import Explorer
from .config import JudgingConfig
from .environment import Environment, TaskSpace
from .walks import explore


def judge(
    environment: Environment,
    spaces: Sequence[TaskSpace],
    explorer: Explorer,
    config: JudgingConfig,
    mode: str,
    seed: int,
) -> dict[str, float | None]:
    """Means over spaces of the best predicted score among `config.candidates` rated programs.

    `explorer_score` is the mean for moves by the network from the best of `config.draws` random programs,
    `random_moves_score` for random moves, and `random_score` for random programs. `gain` is the mean
    logarithm of the ratio of the explorer's score to the score of random programs. The means are None without
    a space.
    """
    if not spaces:
        names = ("explorer_score", "random_moves_score", "random_score", "gain")
        return {"spaces": 0, **dict.fromkeys(names)}
    explored = best_times(environment, spaces, explorer, config, mode, seed)
    moved = best_times(environment, spaces, explorer, config, mode, seed, epsilon=1.0)
    drawn = np.array(
        [
            environment.observe([space], [_drawn(space, config.candidates, seed, number)]).time.min()
            for number, space in enumerate(spaces)
        ]
    )
    return {
        "spaces": len(spaces),
        "explorer_score": float(np.exp(-explored).mean()),
        "random_moves_score": float(np.exp(-moved).mean()),
        "random_score": float(np.exp(-drawn).mean()),
        "gain": float(np.mean(drawn - explored)),
    }


def best_times(
    environment: Environment,
    spaces: Sequence[TaskSpace],
    explorer: Explorer,
    config: JudgingConfig,
    mode: str,
    seed: int,
    epsilon: float = 0.0,
) -> NDArray[np.float64]:
    """Logarithm of the latency of the best program that a search finds in each space, [n]."""
    found = [
        explore(
            environment,
            space,
            explorer,
            _drawn(space, config.draws, seed, number),
            count=config.candidates,
            walks=config.walks,
            mode=mode,
            epsilon=epsilon,
            rng=np.random.default_rng((seed, number, 1)),
        ).time.min()
        for number, space in enumerate(spaces)
    ]
    return np.array(found)


def _drawn(space: TaskSpace, count: int, seed: int, number: int) -> NDArray[np.int32]:
    """Different random programs; those of a smaller count are the first of a larger one."""
    rng = np.random.default_rng((seed, number))
    drawn: NDArray[np.int32] = space.space.unique(space.draw(256, rng))[:count]
    return drawn
