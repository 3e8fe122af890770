"""Foresee tuning: the bottleneck first, then its family (FamilySeer section 5.2, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..planners.base import Round
from ..planners.budget import BudgetedPlanner
from ..planners.config import PlannerConfig
from ..planners.precedence import Precedence
from ..search.settings_checks import OneShotConfigError
from ..search.task_search import TaskSearch


@dataclass(frozen=True)
class ForeseeConfig(PlannerConfig):
    """Settings of foresee tuning; conf/search/planner/foresee.yaml documents each field."""

    name: str = "foresee"
    proportion: float = 0.25

    def __post_init__(self) -> None:
        if not 0 < self.proportion < 1:
            raise OneShotConfigError(
                f"search.planner.proportion={self.proportion}: must be over 0 and below 1, such as 0.25"
            )


class ForeseePlanner(BudgetedPlanner):
    """Plans g programs for the bottleneck of all tasks, then g * p programs for the bottleneck of its family.

    The bottleneck is the task with the highest latency in the network, including its weight (lines 10 to 12).
    The paper's g is the smaller of 64 and the budget divided by the number of tasks (line 6), for a model
    trained from scratch. Here the programs of a round bound g, since a pretrained model needs fewer than 64
    programs for its correction. The family's turn goes to a task other than the one just tuned. The paper's
    text asks for this; its algorithm leaves it open (line 20). With several searchers the family's turn does
    not wait for the measurements of the bottleneck.
    """

    Config = ForeseeConfig

    def begin(self, searches: Sequence[TaskSearch], precedence: Precedence | None = None) -> None:
        """See TurnPlanner."""
        super().begin(searches, precedence)
        self._tuned: TaskSearch | None = None
        """The bottleneck whose family has the next turn."""
        self._owed = 0.0
        """Programs that families are owed: the fractions of g * p add up over turns."""

    def _choose(self, free: Sequence[TaskSearch]) -> Round:
        programs = min(self._config.per_round, 64)
        if (tuned := self._tuned) is not None:
            family = [search for search in free if search.family == tuned.family and search is not tuned]
            self._tuned = None
            if family:  # lines 19 to 22
                self._owed += self._config.planner.proportion * programs
                if (whole := int(self._owed + 1e-9)) > 0:
                    self._owed -= whole
                    return self._round(self._bottleneck(family), whole)
        self._tuned = self._bottleneck(free)
        return self._round(self._tuned, programs)

    def _bottleneck(self, searches: Sequence[TaskSearch]) -> TaskSearch:
        return max(searches, key=self._stake_s)
