"""What a cost model is trained to output, and how its output becomes a score or a latency again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError

TARGETS = ("score", "log_score", "efficiency")


class TargetError(UserError, ValueError):
    """The training target is unknown or out of range."""


@dataclass(frozen=True)
class TargetConfig:
    """The regression target.

    With s the score (best latency of the task / latency, 0 for a failure), m = `max_slowdown`, e the
    efficiency (least latency that the roofline of the device allows the task / latency, 0 for a failure) and
    f = `min_efficiency`:

    - `score`:      y = s, which spends resolution on the fastest programs;
    - `log_score`:  y = 1 + ln(max(s, 1/m)) / ln(m), which spends it evenly over slow-downs from 1 to m;
    - `efficiency`: y = 1 - ln(max(e, f)) / ln(f), even over efficiencies from f to 1, and above 1 where a
      program beats the roofline as it was measured, by finding its arguments in a cache.

    All order the programs of a task alike. The first two map the best program to 1, and so depend on how good
    the best one found is. The third needs no best program: it compares across tasks and gives seconds.
    Records more than `max_slowdown` times slower than the best of their task are left out of training with
    any of them (One-Shot Tuner section 5: 20).
    """

    name: str = "score"
    max_slowdown: float = 20.0
    min_efficiency: float = 1e-4

    def __post_init__(self) -> None:
        if self.name not in TARGETS:
            raise TargetError(f"target.name={self.name!r} is unknown: choose one of {', '.join(TARGETS)}")
        if not self.max_slowdown > 1:
            raise TargetError(f"target.max_slowdown={self.max_slowdown} must be above 1; the paper uses 20")
        if not 0 < self.min_efficiency < 1:
            raise TargetError(
                f"target.min_efficiency={self.min_efficiency} must be within (0, 1), as 1e-4 is"
            )

    @property
    def quantity(self) -> Literal["score", "efficiency"]:
        """What `encode` takes."""
        return "efficiency" if self.name == "efficiency" else "score"

    @property
    def is_absolute(self) -> bool:
        """Whether it compares programs of different tasks."""
        return self.quantity == "efficiency"

    def encode(self, quantity: NDArray[np.float64]) -> NDArray[np.float32]:
        """Scores or efficiencies, 0 for a failure -> training targets, both [n]."""
        if self.name == "score":
            return quantity.astype(np.float32)
        least = self.least
        return (1 - np.log(np.maximum(quantity, least)) / np.log(least)).astype(np.float32)

    def decode(self, output: NDArray[np.float32]) -> NDArray[np.float32]:
        """Model outputs -> predicted scores or efficiencies, both [n]; increasing, so ranks are kept."""
        if self.name == "score":
            return output
        quantity: NDArray[np.float32] = np.power(np.float32(self.least), 1 - output).astype(np.float32)
        return quantity

    def latency_s(self, output: NDArray[np.float32], least_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """Model outputs and the roofline's least latencies in seconds -> predicted latencies in seconds.

        All [n]. Raises TargetError for a target that is relative to the best program of a task.
        """
        if not self.is_absolute:
            raise TargetError(
                f"the model was trained on target.name={self.name}, which ranks the programs of a task and "
                "gives no seconds: use a checkpoint of target.name=efficiency"
            )
        latency_s: NDArray[np.float64] = least_s * np.power(self.least, output.astype(np.float64) - 1)
        return latency_s

    def comparable(self, decoded: NDArray[np.float32], group: NDArray[np.int64]) -> NDArray[np.float32]:
        """Decoded outputs as predicted scores, [n] both; rows with equal `group` are rivals.

        Efficiencies are divided by the best predicted one of their group, so that they can be held against
        measured scores; predicted scores are returned as they are.
        """
        if not self.is_absolute or len(decoded) == 0:
            return decoded
        _, of_row = np.unique(group, return_inverse=True)
        best = np.zeros(of_row.max() + 1, dtype=decoded.dtype)
        np.maximum.at(best, of_row, decoded)
        scores: NDArray[np.float32] = decoded / np.maximum(best, np.finfo(best.dtype).tiny)[of_row]
        return scores

    @property
    def least(self) -> float:
        """The quantity at which a logarithmic target is 0; 0 for a target that is none."""
        if self.name == "score":
            return 0.0
        return self.min_efficiency if self.is_absolute else 1 / self.max_slowdown
