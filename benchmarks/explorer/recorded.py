"""Searches confined to the recorded programs of a task, whose latencies are replayed."""

from __future__ import annotations

import numpy as np
from foretune.dataset.features.recorded_spaces import RecordedSpace
from foretune.models.architectures.explorer import MODES, Explorer
from foretune.training.exploration.environment import Environment
from foretune.training.exploration.policy import ranked
from foretune.training.exploration.tasks import task_space

LEAST = 24
"""Minimum number of recorded programs of a sketch, so that a search has a choice."""


def recorded_scores(
    one: RecordedSpace, environment: Environment, explorer: Explorer, count: int, seed: tuple[int, ...]
) -> dict[str, float] | None:
    """Fastest recorded latency over the fastest of `count` visits, by search; None with too few records."""
    ran = np.isfinite(one.latencies_s)
    programs, first = np.unique(one.programs[ran], axis=0, return_index=True)
    latencies_s = one.latencies_s[ran][first]
    if len(programs) < LEAST:
        return None
    pool = _Pool(one, programs, environment, explorer)
    best = latencies_s.min()
    taken = {
        "random": np.random.default_rng(seed).permutation(len(programs))[:count],
        "random_moves": pool.walk(count, MODES[0], 1.0, seed),
        **{f"dqn, {mode}": pool.walk(count, mode, 0.0, seed) for mode in MODES},
    }
    return {name: float(best / latencies_s[rows].min()) for name, rows in taken.items()}


class _Pool:
    """Recorded programs of a sketch, among which the moves of a walk lead."""

    def __init__(
        self, one: RecordedSpace, programs: np.ndarray, environment: Environment, explorer: Explorer
    ) -> None:
        self._space = task_space(one)
        self._programs = programs
        self._environment = environment
        self._explorer = explorer
        self._logs = self._log(programs)

    def walk(self, count: int, mode: str, epsilon: float, seed: tuple[int, ...]) -> list[int]:
        """Recorded programs of one walk from a random start; each move leads to the nearest unvisited one."""
        rng = np.random.default_rng(seed)
        taken = [int(rng.integers(len(self._programs)))]
        while len(taken) < count:
            here = self._programs[taken[-1:]]
            seen = self._environment.observe([self._space], [here])
            values = self._explorer.values(seen.states(len(taken) / count))[:, MODES.index(mode)]
            (order,) = ranked(values, seen.legal, epsilon, rng)
            moved = self._space.move(here, order[:1])
            apart = np.abs(self._logs - self._log(moved)).sum(axis=1)
            apart[taken] = np.inf
            taken.append(int(np.argmin(apart)))
        return taken

    def _log(self, programs: np.ndarray) -> np.ndarray:
        """Decisions on the scale of a step: logarithms of tile factors, positions of other values."""
        sketch, values = self._space.space.sketch, self._space.space.values(programs)
        logs: np.ndarray = values.astype(float)
        for decision in sketch.decisions:
            if decision.kind == "tile":
                columns = slice(decision.column, decision.column + decision.width)
                logs[:, columns] = np.log2(values[:, columns])
        return logs
