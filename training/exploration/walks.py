"""Walks through programs: walks that teach the network, and walks that search with a trained one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from ...compiler.structure.space import Choices
from ...models.architectures.explorer import MODES, Explorer
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

    Each walk uses the values of one mode, in turns; the moves have the rewards of all modes.
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
    return Moves(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Moves)))


@dataclass(frozen=True)
class Visited:
    """Different programs of one space that a search has rated, in order."""

    choices: Choices  # [n, n_decisions]
    time: NDArray[np.float64]  # [n], see Observation

    def plus(self, choices: Choices, time: NDArray[np.float64]) -> Visited:
        """These programs and further ones."""
        return Visited(np.concatenate([self.choices, choices]), np.concatenate([self.time, time]))

    def order(self) -> list[int]:
        """Numbers of the programs, the fastest by the environment first."""
        return np.argsort(self.time, kind="stable").tolist()

    def best(self, count: int) -> Choices:
        """The `count` fastest by the environment, the fastest first."""
        return self.choices[self.order()[:count]]


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
    """Rates `count` more different programs: the starts, then the programs that moves lead to.

    Each step moves on from the best `walks` programs so far, by the action of the highest value that leads to
    a program not visited yet. With probability `epsilon`, the actions of a program come in random order.
    Algorithm 1 moves on from the last program, whatever it is worth, and finds less at as many programs.
    Fewer are rated if all moves of all programs are taken.

    Args:
        starts: programs to rate first, at least one; those of `before` are not rated again.
        walks: programs that a step moves on from.
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
    moves: dict[int, list[int]] = {}  # left of each visited program that was moved on from
    while left > 0:
        here = [row for row in visited.order() if moves.get(row, [-1])][:walks]
        if not here:
            break
        if unvalued := [row for row in here if row not in moves]:
            seen = environment.observe([space], [visited.choices[unvalued]])
            values = explorer.values(seen.states(1 - left / count))[:, MODES.index(mode)]
            orders = ranked(values, seen.legal, epsilon, rng)
            moves |= {row: order.tolist() for row, order in zip(unvalued, orders, strict=True)}
        reached = [_next_new(space, visited.choices[row], moves[row], known) for row in here[:left]]
        if moved := [row for row in reached if row is not None]:
            found = np.array(moved, dtype=np.int32)
            visited = visited.plus(found, environment.observe([space], [found]).time)
            left -= len(found)
    return visited


def _next_new(
    space: TaskSpace, row: NDArray[np.int32], moves: list[int], known: set[object]
) -> NDArray[np.int32] | None:
    """The program after the first of `moves` that leads to an unknown one; tried moves are removed."""
    while moves:
        moved = space.move(row[None], np.array([moves.pop(0)]))
        (key,) = space.space.keys(moved).tolist()
        if key not in known:
            known.add(key)
            found: NDArray[np.int32] = moved[0]
            return found
    return None
