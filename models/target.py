"""What a cost model is trained to output, and how its output becomes a score again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError

TARGETS = ("score", "log_score")


class TargetError(UserError, ValueError):
    """The training target is unknown or out of range."""


@dataclass(frozen=True)
class TargetConfig:
    """The regression target.

    With s the score (best latency of the task / latency, 0 for a failure) and m = `max_slowdown`:

    - `score`:     y = s, which spends resolution on the fastest programs;
    - `log_score`: y = 1 + ln(max(s, 1/m)) / ln(m), which spends it evenly over slow-downs from 1 to m.

    Both map the best program to 1 and order programs alike. Records more than `max_slowdown` times slower
    than the best of their task are left out of training (One-Shot Tuner section 5: 20).
    """

    name: str = "score"
    max_slowdown: float = 20.0

    def __post_init__(self) -> None:
        if self.name not in TARGETS:
            raise TargetError(f"target.name={self.name!r} is unknown: choose one of {', '.join(TARGETS)}")
        if not self.max_slowdown > 1:
            raise TargetError(f"target.max_slowdown={self.max_slowdown} must be above 1; the paper uses 20")

    def encode(self, score: NDArray[np.float64]) -> NDArray[np.float32]:
        """Scores in [0, 1] -> training targets in [0, 1], both [n]."""
        if self.name == "score":
            return score.astype(np.float32)
        log = np.log(np.maximum(score, 1 / self.max_slowdown)) / np.log(self.max_slowdown)
        return (1 + log).astype(np.float32)

    def decode(self, output: NDArray[np.float32]) -> NDArray[np.float32]:
        """Model outputs -> predicted scores, both [n]; strictly increasing, so ranks are kept."""
        if self.name == "score":
            return output
        scores: NDArray[np.float32] = np.power(np.float32(self.max_slowdown), output - 1).astype(np.float32)
        return scores
