"""Rule for exchanging the library of a run during its search."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class ExchangeRule:
    """A better library is compiled if it is expected to be much faster, and if that costs little of the time.

    Measurements stand still while a library is compiled.
    """

    least_gain: float = 0.1
    """Share of the latency that a new library is expected to save."""
    most_cost: float = 0.05
    """Share of the remaining time that compiling and comparing a library may take."""

    def is_due(self, expected_s: float, current_s: float, cost_s: float, left_s: float) -> bool:
        """Whether to compile a library now.

        Args:
            expected_s: latency of the network with the best schedules so far; inf if it is not known.
            current_s: latency with the library in use; inf without one.
            cost_s: seconds that the last library took.
            left_s: seconds until the end of the search; inf if they are not known.
        """
        gains = math.isfinite(expected_s) and expected_s <= (1 - self.least_gain) * current_s
        return gains and cost_s <= self.most_cost * left_s


def left_of_search_s(budget_left_s: float | None, searched_s: float, share_done: float) -> float:
    """Seconds until the end of the search: the rest of the budget, or by the share of rounds that are done.

    Args:
        budget_left_s: rest of the budget, or None without a budget.
        searched_s: seconds since the begin of the search.
        share_done: share of the planned rounds that are done.
    """
    if budget_left_s is not None:
        return max(0.0, budget_left_s)
    return searched_s * (1 - share_done) / share_done if share_done else math.inf
