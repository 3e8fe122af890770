"""Choice of actions: epsilon-greedy (Fasor, Algorithm 1, lines 5 to 10), and how epsilon decays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

DECAY = 10
"""K of the temporal decay K / (K + epoch) (Fasor, section 7)."""


def epsilon_of(epoch: int, least: float, decay: float = DECAY) -> float:
    """Probability of a random action in an epoch, counted from 0: K / (K + epoch), at least `least`."""
    return max(decay / (decay + epoch), least)


def ranked(
    values: NDArray[np.float32], legal: NDArray[np.bool_], epsilon: float, rng: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Legal actions of each of n states, the one to take first.

    With probability `epsilon` their order is random, otherwise by descending value.

    Args:
        values: Q-values [n, actions].
        legal: legal actions [n, actions].
    """
    at_random = rng.random(len(values)) < epsilon
    found = []
    for of_state, allowed, explores in zip(values, legal, at_random, strict=True):
        actions = np.flatnonzero(allowed)
        order = rng.permutation(len(actions)) if explores else np.argsort(-of_state[actions], kind="stable")
        found.append(actions[order])
    return found


def target_values(
    reward: NDArray[np.float32],
    next_values: NDArray[np.float32],
    next_legal: NDArray[np.bool_],
    ends: NDArray[np.bool_],
    discount: float,
) -> NDArray[np.float32]:
    """Targets y = r + γ max_a' Q(s', a') of n moves (Algorithm 1, line 14), float32 [n, modes].

    The maximum is over the legal actions of the next state. A move that ends its walk has no next state.

    Args:
        reward: [n, modes].
        next_values: Q-values of the next states [n, modes, actions].
        next_legal: [n, actions].
        ends: [n].
    """
    best = np.where(next_legal[:, None, :], next_values, -np.inf).max(axis=2)
    following = np.where((ends | ~next_legal.any(axis=1))[:, None], np.float32(0), best)
    targets: NDArray[np.float32] = (reward + np.float32(discount) * following).astype(np.float32)
    return targets
