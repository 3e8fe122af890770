"""Verdict on a fine-tuned model: better or worse than its starting point on the same tasks."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from ...models.metrics.margins import LEAST_TASKS, Margin, paired_margin
from ...models.metrics.task_metrics import Metrics
from ...wording import counted, verb


class JudgedBy(Enum):
    """Tasks that a model and its starting point are compared on; the values describe them in a title."""

    OTHER_TASKS = "that neither model has seen"
    STOPPING_TASKS = "that chose the epoch, which favours the fine-tuned model"


@dataclass(frozen=True)
class Verdict:
    """Comparison of a fine-tuned model with its starting point.

    The peak score@10 decides: it says how soon a search that measures in the predicted order finds the best
    program, and is the mean of the top-1 to top-10 scores. The rank correlation decides between equal ones.
    """

    by: JudgedBy
    before: Metrics
    after: Metrics

    @property
    def margin(self) -> Margin:
        """Margin of the fine-tuned model in the deciding metric, over the tasks."""
        peaks = self._margin("peak_10")
        return self._margin("spearman") if peaks.ahead == 0 else peaks

    @property
    def is_worse(self) -> bool:
        """Whether the starting point is the better model."""
        return self.margin.ahead < 0

    def sentence(self) -> str:
        """The verdict in words, without the next step."""
        change = f"peak@10 {self.before.peak_10:.3f} before, {self.after.peak_10:.3f} after fine-tuning"
        margin = self.margin
        on = f"on {counted(self.before.tasks, 'task')}"
        if margin.clear:
            return f"fine-tuning made the model {'worse' if self.is_worse else 'better'} {on}: {change}"
        if margin.tasks < LEAST_TASKS:
            reason = f"{counted(margin.tasks, 'task')} {verb(margin.tasks, 'is', 'are')} too few to decide"
        else:
            reason = f"the difference {on} may be chance"
        return f"no clear difference from the starting point: {change}, and {reason}"

    def _margin(self, measure: str) -> Margin:
        columns = [
            np.array([getattr(task, measure) for task in metrics.per_task])
            for metrics in (self.after, self.before)
        ]
        return paired_margin(columns[0] - columns[1])
