"""Searches with an explorer beside random ones, at an equal number of rated programs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...models.explorer import Explorer
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

    `explorer_score` is that of walks from the best of `config.draws` random programs, `random_score` that of
    random programs alone, and `gain` the mean logarithm of their ratio; None without a space.
    """
    if not spaces:
        return {"spaces": 0, "explorer_score": None, "random_score": None, "gain": None}
    explored, drawn = [], []
    for number, space in enumerate(spaces):
        rng = np.random.default_rng((seed, number))
        at_random = space.space.unique(space.draw(2 * config.candidates, rng))[: config.candidates]
        times = environment.observe([space], [at_random]).time
        visited = explore(
            environment,
            space,
            explorer,
            at_random[: config.draws],
            count=config.candidates,
            walks=config.walks,
            mode=mode,
            epsilon=0.0,
            rng=rng,
        )
        explored.append(visited.time.min())
        drawn.append(times.min())
    return {
        "spaces": len(spaces),
        "explorer_score": float(np.exp(-np.array(explored)).mean()),
        "random_score": float(np.exp(-np.array(drawn)).mean()),
        "gain": float(np.mean(np.array(drawn) - np.array(explored))),
    }
