"""Training target of a cost model, and its conversion to a score or a latency."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ...errors import UserError

TARGETS = ("score", "log_score", "efficiency")


class TargetError(UserError, ValueError):
    """The training target is unknown or out of range."""


@dataclass(frozen=True)
class TargetConfig:
    """Regression target.

    Let s be the score (best latency of the task / latency, 0 for a failure), m = `max_slowdown`, e the
    efficiency (least latency of the task by the device's roofline / latency, 0 for a failure) and
    f = `min_efficiency`:

    - `score`:      y = s, which resolves the fastest programs best;
    - `log_score`:  y = 1 + ln(max(s, 1/m)) / ln(m), with even resolution over slowdowns from 1 to m;
    - `efficiency`: y = 1 - ln(max(e, f)) / ln(f), with even resolution over efficiencies from f to 1. It
      exceeds 1 if a program beats the measured roofline because its arguments are in a cache.

    All three order the programs of a task alike. The first two map the best known program to 1 and thus
    depend on how good it is. The third does not: it compares programs of different tasks and gives seconds.
    With any target, records more than `max_slowdown` times slower than the best of their task are left out
    of training (One-Shot Tuner section 5 uses 20).
    """

    name: str = "score"
    max_slowdown: float = 20.0
    min_efficiency: float = 1e-4

    def __post_init__(self) -> None:
        if self.name not in TARGETS:
            raise TargetError(f"target.name={self.name!r} is unknown: choose one of {', '.join(TARGETS)}")
        if not self.max_slowdown > 1:
            raise TargetError(f"target.max_slowdown={self.max_slowdown}: set it above 1; the paper uses 20")
        if not 0 < self.min_efficiency < 1:
            raise TargetError(
                f"target.min_efficiency={self.min_efficiency}: set it within (0, 1), such as 1e-4"
            )

    @property
    def quantity(self) -> Literal["score", "efficiency"]:
        """Quantity that `encode` takes."""
        return "efficiency" if self.name == "efficiency" else "score"

    @property
    def is_absolute(self) -> bool:
        """Whether the target compares programs of different tasks."""
        return self.quantity == "efficiency"

    def encode(self, quantity: NDArray[np.float64]) -> NDArray[np.float32]:
        """Training targets [n] of scores or efficiencies [n], which are 0 for a failure."""
        if self.name == "score":
            return quantity.astype(np.float32)
        least = self.least
        return (1 - np.log(np.maximum(quantity, least)) / np.log(least)).astype(np.float32)

    def decode(self, output: NDArray[np.float32]) -> NDArray[np.float32]:
        """Predicted scores or efficiencies [n] of model outputs [n]; increasing, so ranks are preserved."""
        if self.name == "score":
            return output
        quantity: NDArray[np.float32] = np.power(np.float32(self.least), 1 - output).astype(np.float32)
        return quantity

    def latency_s(self, output: NDArray[np.float32], least_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """Predicted latencies in seconds, of model outputs and the roofline's least latencies in seconds.

        All are [n]. Raises TargetError for a target that is relative to the best program of a task.
        """
        self.require_absolute()
        latency_s: NDArray[np.float64] = least_s * np.power(self.least, output.astype(np.float64) - 1)
        return latency_s

    def require_absolute(self) -> None:
        """Raises TargetError for a target that is relative to the best program of a task."""
        if not self.is_absolute:
            raise TargetError(
                f"the model was trained on target.name={self.name}, which ranks the programs of a task and "
                "gives no seconds: use a checkpoint of target.name=efficiency"
            )

    def require_relative(self) -> None:
        """Raises TargetError for a target that compares programs of different tasks."""
        if self.is_absolute:
            raise TargetError(
                f"the model was trained on target.name={self.name}, and a score relative to the task's best "
                "program is needed: use a checkpoint of target.name=log_score"
            )

    def comparable(self, decoded: NDArray[np.float32], group: NDArray[np.int64]) -> NDArray[np.float32]:
        """Predicted scores [n] of decoded outputs [n], for comparison with measured scores.

        Efficiencies are divided by the best predicted efficiency of their `group` [n]; predicted scores are
        returned unchanged.
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
        """Quantity at which a logarithmic target is 0; 0 if the target is not logarithmic."""
        if self.name == "score":
            return 0.0
        return self.min_efficiency if self.is_absolute else 1 / self.max_slowdown
