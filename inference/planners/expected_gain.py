"""Expected gain of another round of a task, estimated from the savings of earlier rounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

FIRST_GAIN = 0.2
"""Share of the latency that a second round is expected to save if no task had a second round yet."""

SMALLEST_GAIN = 0.01
"""A task has converged if two consecutive rounds save less than this share (Fasor section 6)."""


@dataclass(frozen=True)
class Progress:
    """Progress of one task."""

    weight: int
    latency_s: float
    """Best latency so far in seconds; inf if no program ran yet."""
    gains: tuple[float, ...]
    """Share of the previous latency that each round after the first saved."""
    round_s: float
    """Duration of one round in seconds."""

    @property
    def expected_gain(self) -> float:
        """Share that the next round is expected to save: half of the mean saving of the last two rounds.

        Gains shrink from round to round. A round without a gain does not prove that the next round has none.
        """
        if not self.gains:
            return FIRST_GAIN
        recent = self.gains[-2:]
        return 0.5 * sum(recent) / len(recent)

    @property
    def converged(self) -> bool:
        """Whether two consecutive rounds saved less than `SMALLEST_GAIN`."""
        return len(self.gains) >= 2 and max(self.gains[-2:]) < SMALLEST_GAIN

    @property
    def saving_rate(self) -> float:
        """Seconds of the network's latency that one second of the next round is expected to save."""
        return self.weight * self.latency_s * self.expected_gain / max(self.round_s, 1e-9)


def most_promising(tasks: Sequence[Progress]) -> int | None:
    """Index of the task with the highest saving rate; None if all tasks have converged."""
    open_tasks = [index for index, task in enumerate(tasks) if not task.converged]
    return max(open_tasks, key=lambda index: tasks[index].saving_rate, default=None)


def gain(before_s: float, after_s: float) -> float:
    """Share of a latency that a round saved; 1 if no program ran before the round."""
    if math.isinf(before_s):
        return 0.0 if math.isinf(after_s) else 1.0
    return max(0.0, 1.0 - after_s / before_s)
