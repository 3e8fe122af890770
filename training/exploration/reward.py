"""Reward of a move (Fasor, equation 3): r_t = φ1 (T_{t-1} - T_t) + φ2 CS / MS + φ3 #Iter.

Departures from the paper, which gives no units:

- T is the natural logarithm of the latency relative to the task's fastest program, so that a move that saves
  a tenth of the latency earns as much in a task of microseconds as in one of seconds.
- CS / MS is cut at the ridge point of the roofline, 1: right of it memory traffic limits the program no more.
- #Iter is the share of the walk's steps, and counts negatively: it is there so that the search ends "in fewer
  iterations", which a positive one would not bring about.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ...configuration import ConfigError
from ...models.architectures.explorer import MODES


@dataclass(frozen=True)
class RewardWeights:
    """Weights φ1, φ2 and φ3 of one mode."""

    time: float
    ratio: float
    iteration: float

    def __post_init__(self) -> None:
        if min(self.time, self.ratio, self.iteration) < 0 or self.time == 0:
            raise ConfigError(f"reward: {self}: set weights of 0 or more, and time above 0")


@dataclass(frozen=True)
class RewardConfig:
    """Weights of each mode, by default those of the paper (section 7)."""

    high_efficiency: RewardWeights = field(default_factory=lambda: RewardWeights(0.35, 0.25, 0.4))
    high_quality: RewardWeights = field(default_factory=lambda: RewardWeights(0.45, 0.35, 0.2))

    def of(
        self,
        time_before: NDArray[np.float64],
        time_after: NDArray[np.float64],
        ratio: NDArray[np.float64],
        iteration: float,
    ) -> NDArray[np.float32]:
        """Rewards of n moves in each mode, float32 [n, modes].

        Args:
            time_before, time_after: logarithms of the latencies [n].
            ratio: CS / MS of the programs after the move [n].
            iteration: share of the walk's steps that are taken, in (0, 1].
        """
        saved, bounded = time_before - time_after, np.minimum(ratio, 1.0)
        weights: list[RewardWeights] = [getattr(self, mode) for mode in MODES]
        rewards = [w.time * saved + w.ratio * bounded - w.iteration * iteration for w in weights]
        return np.stack(rewards, axis=1).astype(np.float32)
