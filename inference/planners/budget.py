"""Planners that spend one budget of programs on all tasks of a run: round-robin, headroom and gradient."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from ..search.settings_checks import OneShotConfigError
from ..search.task_search import TaskSearch
from .base import Round
from .config import PlannerConfig
from .precedence import Precedence, Stage
from .turn_planner import TurnPlanner


class BudgetedPlanner(TurnPlanner):
    """Plans rounds until the run has measured `top_k` programs per task on average.

    The planner is free to distribute the budget over the tasks. Every task gets a first round before any task
    gets a second one. If a search has nothing more to propose, or if its surrogate expects no further gain,
    other tasks get its programs. If an earlier run completed the search of a task, only `extra_rounds`
    continue it.

    A task that starts from other tasks adds the programs that it measures as a child. A task with a limit on
    its rounds adds the programs of these rounds. The planner reserves programs for waiting children. Their
    parents are settled after they measured their own programs, or when only the reserved programs are left. A
    child that had its rounds is treated like any other task.
    """

    @property
    def completes_all(self) -> bool:
        """See TaskPlanner."""
        return True

    def begin(self, searches: Sequence[TaskSearch], precedence: Precedence | None = None) -> None:
        """See TurnPlanner."""
        super().begin(searches, precedence)
        self._before = {search: self._searched(search) for search in searches if self._takes_part(search)}
        """Programs that earlier runs measured for each task that adds to the budget."""

    def next_round(self, preferred: Sequence[TaskSearch], others: Sequence[TaskSearch]) -> Round | None:
        """See TaskPlanner."""
        left = self._left
        for searches in (preferred, [*preferred, *others]):
            free = [search for search in searches if self._is_open(search) and not self._waits(search)]
            if first := [search for search in free if self._needs_first(search, left)]:
                chosen = max(first, key=lambda search: (not search.rounds, *self._stake(search)))
                return self._round_of(chosen, max(1, min(self._config.per_round, left)))
            if free and self._left_for_turns >= 1 and (planned := self._choose(free)) is not None:
                return planned
        return None

    @abstractmethod
    def _choose(self, free: Sequence[TaskSearch]) -> Round | None:
        """Next round of one of these tasks; None waits for other tasks. Each of these tasks had a round."""

    def _own_share_left(self, search: TaskSearch) -> float:
        """See TurnPlanner; the share refers to the programs that the task adds to the budget."""
        stage, own = self._precedence.stage(search), self._programs(search)
        if stage is not Stage.OWN or not own or not self._is_open(search) or self._left_for_turns < 1:
            return 0.0
        return max(0.0, 1 - len(search.loop.known) / own)

    def _share_of_plan(self) -> float:
        if not self._budget or not any(map(self._is_open, self._searches)):
            return 1.0
        return 1 - self._left / self._budget

    def _searched(self, search: TaskSearch) -> int:
        """Number of programs that an earlier run measured for a task, computed from its rounds."""
        return min(search.full_rounds, self._config.rounds) * self._config.per_round if search.known_s else 0

    def _programs(self, search: TaskSearch) -> int:
        """Programs that a task adds to the budget; after an interrupted run, only its remaining programs."""
        if search not in self._before:
            return 0
        config, before = self._config, self._before[search]
        if (as_child := self._precedence.programs(search)) is not None:
            return max(0, as_child - before)
        own = max(0, config.top_k - before) + config.extra_rounds * config.per_round
        spent = self._precedence.spent_in_vain(search)
        rounds = self._precedence.rounds(search) - spent.rounds
        return spent.programs + int(min(own, rounds * config.per_round))

    def _takes_part(self, search: TaskSearch) -> bool:
        """Whether earlier runs left something to search, and this run has not completed the search."""
        return not search.over and (not search.complete_before or self._config.extra_rounds > 0)

    def _is_open(self, search: TaskSearch) -> bool:
        return self._takes_part(search) and self._precedence.stage(search) is not Stage.UNUSED

    def _waits(self, search: TaskSearch) -> bool:
        return self._precedence.stage(search) is Stage.WAITING

    def _needs_first(self, search: TaskSearch, left: int) -> bool:
        """Whether the task is due its first round of this run or a round as a child."""
        stage = self._precedence.stage(search)
        if stage is not Stage.OWN:
            return stage is Stage.STARTING
        return search.rounds == self._precedence.spent_in_vain(search).rounds and left >= 1

    @property
    def _budget(self) -> int:
        """Programs of the run. If a task turns out not to use its parent, its own programs are added."""
        return sum(map(self._programs, self._before))

    @property
    def _left(self) -> int:
        """Programs of the budget that are neither measured nor planned."""
        measured = sum(len(search.loop.known) for search in self._searches)
        planned = sum(search.flight.budget.measured for search in self._searches if search.busy)
        return self._budget - measured - planned

    @property
    def _left_for_turns(self) -> int:
        """Programs that are left after the reserve for waiting children."""
        return self._left - sum(map(self._precedence.programs_to_come, self._before))

    def _round(self, search: TaskSearch, programs: int | None = None) -> Round:
        """A round of a task with up to `programs` programs, by default as many as in any round."""
        return self._round_of(search, max(1, min(programs or self._config.per_round, self._left_for_turns)))

    def _stake(self, search: TaskSearch) -> tuple[float, float]:
        """Seconds of the network's latency that depend on a task, then the task's operations."""
        return min(self._stake_s(search), 1e6), search.operations

    def _stake_s(self, search: TaskSearch) -> float:
        return self._precedence.stake_s(search)


@dataclass(frozen=True)
class RoundRobinConfig(PlannerConfig):
    """See PlannerConfig."""

    name: str = "round_robin"


class RoundRobinPlanner(BudgetedPlanner):
    """Plans the next round for the task with the fewest rounds."""

    Config = RoundRobinConfig

    def _choose(self, free: Sequence[TaskSearch]) -> Round:
        return self._round(min(free, key=lambda search: search.rounds))


@dataclass(frozen=True)
class HeadroomConfig(PlannerConfig):
    """See PlannerConfig."""

    name: str = "headroom"


class HeadroomPlanner(BudgetedPlanner):
    """Plans the next round for the task with the highest expected saving per second.

    In FamilySeer the potential of a task is its latency alone (section 5.2). This planner multiplies the
    latency by the share that the surrogate expects another batch to save, and divides it by the duration of
    the batch. If a task has no candidates left, the planner uses the savings of its last rounds.
    """

    Config = HeadroomConfig

    def _choose(self, free: Sequence[TaskSearch]) -> Round:
        return self._round(max(free, key=self._saving_rate))

    def _saving_rate(self, search: TaskSearch) -> float:
        """Seconds of the network's latency that one second of searching is expected to save."""
        gain = search.loop.expected_gain(self._config.per_round)
        share = search.progress.expected_gain if gain is None else gain
        return self._stake_s(search) * share / search.program_s


WINDOW = 3
"""Number of rounds over which the recent saving of a task is averaged, as in MetaSchedule."""


@dataclass(frozen=True)
class GradientConfig(PlannerConfig):
    """Weights of the gradient rule; conf/search/planner/gradient.yaml describes the fields."""

    name: str = "gradient"
    alpha: float = 0.2

    def __post_init__(self) -> None:
        if not 0 <= self.alpha <= 1:
            raise OneShotConfigError(f"search.planner.alpha={self.alpha}: must be in [0, 1]")


class GradientPlanner(BudgetedPlanner):
    """Plans the next round for the task with the steepest expected decrease of the network's latency.

    The decrease is a weighted sum. The saving of the last rounds has the weight `alpha`. The current latency
    divided by the number of rounds has the weight `1 - alpha`, as if the latency of a task could reach zero.
    """

    Config = GradientConfig

    def _choose(self, free: Sequence[TaskSearch]) -> Round:
        return self._round(max(free, key=self._expected_fall_s))

    def _expected_fall_s(self, search: TaskSearch) -> float:
        """Seconds of the network's latency that the next round is expected to save."""
        history_s = search.had.history_s or [search.best_s]
        if math.isinf(history_s[-1]):
            return math.inf
        share = gradient(history_s, self._config.planner.alpha) / history_s[-1]
        return self._stake_s(search) * share


def gradient(history_s: Sequence[float], alpha: float) -> float:
    """Seconds that the next round is expected to save, computed from the best latency after each round.

    The result is inf if no program of the task ran.
    """
    best, rounds = history_s[-1], len(history_s)
    if math.isinf(best):
        return math.inf
    window = max(1, min(rounds - 1, WINDOW))
    before = history_s[-1 - window] if rounds > window else best
    saved = (before - best) / window if math.isfinite(before) else best
    return alpha * saved + (1 - alpha) * best / rounds
