"""Precedence of a reuse tree: a child waits for its parent, whose stake includes all waiting tasks."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

from ..planners.precedence import Precedence, Spent, Stage
from ..search.task_search import TaskSearch
from .donors import Donor
from .rules import ChildBudget, ReuseRules, Selected
from .tree import ROOT, left_tree, without_cycles

HEAVY_EVENS = 2
"""Lower bound on the latency of a heavy task, in even shares of the network's latency.

It keeps a network of few tasks from having heavy tasks only.
"""


class TreeOrder(Precedence):
    """Precedence of a reuse tree. Each reconsideration builds the tree anew from the current knowledge.

    A child waits until its parent is settled. It is sent back to be searched alone if no program of the
    parent ran, or if no program of its own rounds ran. Parents of earlier runs stay, with two exceptions:
    parents that this run does not know, and one parent in each cycle of tasks that would wait for each other.
    """

    def __init__(
        self,
        searches: Sequence[TaskSearch],
        selected: Selected,
        rules: ReuseRules,
        *,
        min_latency_share: float,
        share_left: Callable[[TaskSearch], float],
    ) -> None:
        """Creates the precedence of a run's tasks.

        Args:
            searches: the tasks, and the bridges that the tree may contain.
            selected: selection of the tree.
            rules: limits of children and parents.
            min_latency_share: see OneShotConfig; a task with a smaller share is small.
            share_left: share of a task's own search that is planned but not done.
        """
        self._searches = searches
        self._selection = selected.selection
        self._library = {donor.task.workload_hash: donor for donor in selected.library}
        self._rules = rules
        self._min_latency_share = min_latency_share
        self._share_left = share_left
        self._by_name = {search.task.workload_hash: search for search in searches}
        self._parents: dict[str, str] = {}
        self._children: dict[str, list[TaskSearch]] = {}
        self._sketches: dict[str, Hashable] = {}
        self._earlier: dict[str, Mapping[str, float]] = {}
        """Measurements of earlier runs, read on demand."""
        self._heavy_s = math.inf
        """Latency in the network, in seconds, at which a task becomes heavy."""
        self._alternatives: dict[Hashable, list[TaskSearch]] = {}
        for search in searches:
            if search.is_alternative and (loops := rules.loops(search.task)) is not None:
                self._alternatives.setdefault(loops, []).append(search)
        # One plan asks for these values hundreds of times; they hold until something changes.
        self._expected: dict[str, float] = {}
        self._operations: dict[str, float] = {}
        self._settled: dict[str, bool] = {}
        self._stages: dict[str, Stage] = {}
        self._even_s: float | None = None
        self._back: dict[str, Spent] = {}
        """Rounds and programs of children before they were sent back to be searched alone."""

    def reconsider(self) -> None:
        """Builds the tree from the current knowledge, and sends back the children that no parent can help."""
        self._forget()
        begun = {
            name: self.parent(name) if search.busy or search.rounds else self._earlier_parent(search)
            for name, search in self._by_name.items()
            if search.busy or search.rounds or search.full_rounds
        }
        if self._rules.reads_sketches:
            for name in begun.keys() - self._sketches.keys():
                if not self._by_name[name].busy and (fastest := self.donor(name).fastest):
                    self._sketches[name] = self._rules.sketch(self._by_name[name].task, fastest[0])
        tree = self._selection.tree(begun, self._sketches)
        beaten = {name for name, search in self._by_name.items() if search.beaten}
        self._parents = without_cycles({**left_tree(tree.parents, beaten), **begun}, kept=begun)
        self._forget()
        for name, search in self._by_name.items():
            if not search.busy and self.parent(name) != ROOT and self._is_helpless(search):
                self.send_back(search)
        if math.isfinite(self._rules.limits.heavy_share):
            evens = max(self._heavy_evens, HEAVY_EVENS)
            self._heavy_s = evens * self.even_s(self._searches) or math.inf
        self._children = {}
        for name, search in self._by_name.items():
            self._children.setdefault(self.parent(name), []).append(search)
        self._forget()

    def send_back(self, search: TaskSearch) -> None:
        """Lets a child be searched alone; its rounds as a child do not count."""
        self._back[search.task.workload_hash] = Spent(search.rounds, len(search.loop.known))
        self._forget()

    def child(self, search: TaskSearch) -> ChildBudget:
        """Limits of a task as a child."""
        budget = self._resized(search) or self._rules.child(search.task)
        return budget.heavy if budget.heavy is not None and self._is_heavy(search) else budget

    def begun_like(self, search: TaskSearch) -> TaskSearch | None:
        """An alternative with the same loops that has begun; a measured one is preferred.

        None without such an alternative, if the task is not an alternative, or if it had a round.
        """
        if search.rounds or not search.is_alternative:
            return None
        alike = self._alternatives.get(self._rules.loops(search.task), [])
        begun = [other for other in alike if other is not search and (other.busy or other.rounds)]
        return min(begun, key=lambda other: not other.had.history_s, default=None)

    def resized_s(self, search: TaskSearch) -> dict[float, float]:
        """See TaskPlanner. The tree has no such distances, because it gives an alternative no parent."""
        found: dict[float, float] = {}
        for donor in self._library.values():
            apart = round(self._rules.resized_by(search.task, donor.task), 6)
            fastest_s = min(donor.latencies_s.values(), default=math.inf)
            if 0 < apart < math.inf and math.isfinite(fastest_s):
                found[apart] = min(fastest_s, found.get(apart, math.inf))
        return found

    def _resized(self, search: TaskSearch) -> ChildBudget | None:
        """Limits of a task whose parent an earlier run tuned at another size; None for other tasks."""
        earlier = self._library.get(self.parent(search.task.workload_hash))
        return None if earlier is None else self._rules.earlier_child(search.task, earlier.task)

    def parent(self, name: str) -> str:
        """Workload hash of a task's parent; ROOT for a task without a parent."""
        return ROOT if name in self._back else self._parents.get(name, ROOT)

    def donor(self, name: str) -> Donor:
        """A task with its programs that ran, in this run and in earlier runs."""
        search = self._by_name.get(name)
        if search is None:
            return self._library[name]
        if search.known_s is not None and name not in self._earlier:
            self._earlier[name] = self._rules.known_programs(search.task)
        measured = {**self._earlier.get(name, {}), **search.loop.latencies_s()}
        return Donor(search.task, {trace: s for trace, s in measured.items() if math.isfinite(s)})

    def donors_beside(self, child: str, parent: str) -> Iterator[Donor]:
        """Settled tasks other than these two."""
        for name in [*self._by_name, *self._library]:
            if name not in (child, parent) and self._is_settled(name):
                yield self.donor(name)

    # --- Precedence -----------------------------------------------------------------------------------------

    def stage(self, search: TaskSearch) -> Stage:
        """See Precedence."""
        name = search.task.workload_hash
        if name not in self._stages:
            self._stages[name] = self._stage(search)
        return self._stages[name]

    def comes_first(self, search: TaskSearch) -> bool:
        """See Precedence: bridges come first."""
        return not search.calls

    def stake_s(self, search: TaskSearch) -> float:
        """See Precedence. A task without a program counts with its expected latency, if that is known.

        The latency without a schedule can be a hundred times as long.
        """
        waiting = [search]
        for known in waiting:  # grows during the iteration
            waiting += self._children.get(known.task.workload_hash, [])
        expected_s = [math.inf if math.isfinite(s.best_s) else self.expected_s(s) for s in waiting]
        return sum(
            min(seconds, one.stake_s) if math.isfinite(seconds) else one.stake_s
            for one, seconds in zip(waiting, expected_s, strict=True)
        )

    def expected_s(self, search: TaskSearch) -> float:
        """See Precedence. A task without a program is expected to be as fast per operation as its parent."""
        task = search.task
        if (name := task.workload_hash) not in self._expected:
            self._expected[name] = (
                search.network_s
                if math.isfinite(search.best_s)
                else task.weight * task.flops * self._operation_s(self.parent(name))
            )
        return self._expected[name]

    def even_s(self, searches: Sequence[TaskSearch]) -> float:
        """See Precedence."""
        if searches is not self._searches:
            return super().even_s(searches)
        if self._even_s is None:
            self._even_s = super().even_s(searches)
        return self._even_s

    def rounds(self, search: TaskSearch) -> float:
        """See Precedence; tasks that others reuse have a limit."""
        limit = self._rules.limits.rounds
        if limit is None or not self._children.get(search.task.workload_hash):
            return math.inf
        if self._is_heavy(search):
            limit = max(limit, self._rules.limits.heavy_rounds)
        return max(0, limit - (search.full_rounds - search.rounds))

    def deserves_more(self, search: TaskSearch) -> bool:
        """See Precedence: the task's own share of the network's latency decides; see SourceLimits."""
        evens = min(self._rules.limits.own_share * rounds_had(search), self._heavy_evens)
        return search.stake_s >= evens * self.even_s(self._searches)

    @property
    def _heavy_evens(self) -> float:
        """The share of the network's latency at which a task becomes heavy, in even shares."""
        calling = sum(bool(search.task.weight) for search in self._searches)
        return self._rules.limits.heavy_share * calling

    def spent_in_vain(self, search: TaskSearch) -> Spent:
        """See Precedence."""
        return self._back.get(search.task.workload_hash, Spent())

    def programs(self, search: TaskSearch) -> int | None:
        """See Precedence."""
        if self._is_unused(search):
            return 0
        if self.parent(search.task.workload_hash) == ROOT:
            return None
        child = self.child(search)
        if child.total is not None:
            return child.total
        return self.programs_a_round(search) * child.rounds

    def programs_to_come(self, search: TaskSearch) -> int:
        """See Precedence."""
        if search.busy or not self._is_pending(search):
            return 0
        return max(0, (self.programs(search) or 0) - len(search.loop.known))

    def programs_a_round(self, search: TaskSearch) -> int:
        """Maximum number of programs in a child's round."""
        child = self.child(search)
        programs = child.programs if child.search else child.starts + child.beside
        if child.small_programs is not None and self._is_small(search):
            return min(programs, child.small_programs)
        return programs

    def _stage(self, search: TaskSearch) -> Stage:
        parent = self.parent(search.task.workload_hash)
        if self._is_unused(search):
            return Stage.UNUSED
        if self._is_pending(search):
            return Stage.STARTING if self._is_settled(parent) else Stage.WAITING
        return Stage.OWN if parent == ROOT else Stage.STARTED

    def share(self, search: TaskSearch) -> float | None:
        """Expected share of the network's latency; None if it is not known."""
        expected_s = [self.expected_s(other) for other in self._searches if other.task.weight]
        known_s = sum(seconds for seconds in expected_s if math.isfinite(seconds))
        own_s = self.expected_s(search)
        return own_s / known_s if known_s and math.isfinite(own_s) else None

    # --- The tree -------------------------------------------------------------------------------------------

    def _earlier_parent(self, search: TaskSearch) -> str:
        """Parent of a task in an earlier run; ROOT if it had none or if this run does not know the parent."""
        name = ROOT if search.parent is None else search.parent.workload_hash
        return name if name in self._by_name or name in self._library else ROOT

    def _is_unused(self, search: TaskSearch) -> bool:
        """Whether a task is a bridge that the tree does not use."""
        return self.comes_first(search) and search.task.workload_hash not in self._parents

    def _is_helpless(self, child: TaskSearch) -> bool:
        """Whether a child's round, or its parent's search, ended without a program."""
        if rounds_had(child):
            return self.child(child).search and math.isinf(child.best_s)
        parent = self.parent(child.task.workload_hash)
        return self._is_settled(parent) and not self._has_program(parent)

    def _has_program(self, name: str) -> bool:
        """Whether a program of a task ran, in this run or in an earlier one."""
        search = self._by_name.get(name)
        return bool(self._library[name].latencies_s) if search is None else math.isfinite(search.best_s)

    def _is_settled(self, name: str) -> bool:
        """Whether the planned search of a task is done, so that other tasks can reuse it."""
        if name not in self._settled:
            search = self._by_name.get(name)
            self._settled[name] = search is None or not (search.busy or self._share_left(search))
        return self._settled[name]

    def _is_pending(self, search: TaskSearch) -> bool:
        """Whether a task waits for its parent or for its round as a child."""
        if self.parent(search.task.workload_hash) == ROOT or search.over:
            return False
        child = self.child(search)
        if child.total is not None:
            return not search.complete_before and len(search.loop.known) < child.total
        if rounds_had(search) < child.rounds and self.deserves_more(search):
            return True
        return not child.search and math.isinf(search.best_s)

    def _is_heavy(self, search: TaskSearch) -> bool:
        """Whether a task's share of the network's latency requires more than a short search."""
        return self._heavy_s <= self.expected_s(search) < math.inf

    def _is_small(self, search: TaskSearch) -> bool:
        """Whether a task's share is too small for a second round."""
        return self.expected_s(search) < self._min_latency_share * self.even_s(self._searches)

    def _operation_s(self, name: str) -> float:
        """Seconds per operation of a task, or of its nearest ancestor with a program; inf without one."""
        if name not in self._operations:
            self._operations[name] = self._operation_of(name)
        return self._operations[name]

    def _forget(self) -> None:
        self._expected.clear()
        self._operations.clear()
        self._settled.clear()
        self._stages.clear()
        self._even_s = None

    def _operation_of(self, name: str) -> float:
        if donor := self._library.get(name):
            return min(donor.latencies_s.values(), default=math.inf) / max(donor.task.flops, 1.0)
        if (search := self._by_name.get(name)) is None:
            return math.inf
        if math.isfinite(search.best_s):
            return search.best_s / max(search.task.flops, 1.0)
        return self._operation_s(self.parent(name))


def rounds_had(search: TaskSearch) -> int:
    """Number of rounds of a task, including the quick rounds of this run."""
    return max(search.full_rounds, search.rounds)
