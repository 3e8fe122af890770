"""Walks through programs: those that teach the network, and those that search with a trained one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from ...dataset.drafting.space import Choices
from ...models.explorer import MODES, Explorer
from .environment import Environment, TaskSpace
from .policy import ranked
from .replay_memory import Moves
from .reward import RewardConfig


def collect(
    environment: Environment,
    spaces: Sequence[TaskSpace],
    starts: Sequence[Choices],
    explorer: Explorer,
    reward: RewardConfig,
    *,
    steps: int,
    epsilon: float,
    rng: np.random.Generator,
) -> Moves:
    """Moves of walks of `steps` steps side by side, from all starts of all spaces (Algorithm 1, lines 4-13).

    Each walk goes by the values of one mode, in turns; the moves have the rewards of all modes.
    """
    here = list(starts)
    ends = np.cumsum([len(rows) for rows in here])
    mode = np.arange(ends[-1]) % len(MODES)
    seen = environment.observe(spaces, here)
    parts: list[Moves] = []
    for step in range(steps):
        states = seen.states(step / steps)
        values = explorer.values(states)[np.arange(len(mode)), mode]
        actions = np.array([order[0] for order in ranked(values, seen.legal, epsilon, rng)])
        of_space = np.split(actions, ends[:-1])
        here = [space.move(rows, taken) for space, rows, taken in zip(spaces, here, of_space, strict=True)]
        after = environment.observe(spaces, here)
        done = (step + 1) / steps
        parts.append(
            Moves(
                states.task,
                seen.hardware,
                actions,
                reward.of(seen.time, after.time, after.ratio, done),
                after.states(done).task,
                after.legal,
                np.full(len(actions), step + 1 == steps),
            )
        )
        seen = after
    return Moves(
        *(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Moves))
    )


@dataclass(frozen=True)
class Visited:
    """Different programs of one space that a search has rated, in order."""

    choices: Choices  # [n, n_decisions]
    time: NDArray[np.float64]  # [n], see Observation

    def plus(self, choices: Choices, time: NDArray[np.float64]) -> Visited:
        """These programs and further ones."""
        return Visited(np.concatenate([self.choices, choices]), np.concatenate([self.time, time]))

    def best(self, count: int) -> Choices:
        """The `count` fastest by the environment, the fastest first."""
        return self.choices[np.argsort(self.time, kind="stable")[:count]]


def explore(
    environment: Environment,
    space: TaskSpace,
    explorer: Explorer,
    starts: Choices,
    *,
    count: int,
    walks: int,
    mode: str,
    epsilon: float,
    rng: np.random.Generator,
    before: Visited | None = None,
) -> Visited:
    """Rates `count` more different programs: the starts, then those of walks from the best of all so far.

    A step takes the action of the highest value that leads to a program not visited yet (with probability
    `epsilon`, any such action); a walk without one ends. Fewer programs are rated where all walks end.

    Args:
        starts: programs to rate first, at least one; those of `before` are not rated again.
        walks: walks side by side.
        before: programs that earlier calls have visited; the result begins with them.
    """
    visited = before or Visited(starts[:0], np.zeros(0))
    known = set(space.space.keys(visited.choices).tolist())
    fresh = space.space.unique(starts)
    fresh = fresh[[key not in known for key in space.space.keys(fresh).tolist()]][:count]
    if len(fresh):
        known.update(space.space.keys(fresh).tolist())
        visited = visited.plus(fresh, environment.observe([space], [fresh]).time)
    left = count - len(fresh)
    here = visited.best(walks)
    seen = environment.observe([space], [here])
    steps = max(-(-left // max(len(here), 1)), 1)
    for step in range(left):
        if not left or not len(here):
            break
        values = explorer.values(seen.states(min(step / steps, 1.0)))[:, MODES.index(mode)]
        moved: list[NDArray[np.int32]] = []
        for row, order in zip(here, ranked(values, seen.legal, epsilon, rng), strict=True):
            if len(moved) < left and (new := _first_new(space, row, order, known)) is not None:
                moved.append(new)
        here = np.array(moved, dtype=np.int32).reshape(-1, here.shape[1])
        if len(here):
            seen = environment.observe([space], [here])
            visited = visited.plus(here, seen.time)
            left -= len(here)
    return visited


def _first_new(
    space: TaskSpace, row: NDArray[np.int32], order: NDArray[np.int64], known: set[object]
) -> NDArray[np.int32] | None:
    """The program after the first action that leads to an unknown one, which is known from now on."""
    for action in order:
        moved = space.move(row[None], np.array([action]))
        (key,) = space.space.keys(moved).tolist()
        if key not in known:
            known.add(key)
            found: NDArray[np.int32] = moved[0]
            return found
    return None
