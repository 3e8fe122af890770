"""Selection of the reuse tree of least estimated cost (ETO section 6)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Generic, TypeVar

from ...reuse.selection import ReuseSelection
from ...reuse.tree import ROOT, ReuseTree
from .graph import COST, choice_graph
from .steiner import steiner_tree

T = TypeVar("T")


class LeastCostSelection(ReuseSelection, Generic[T]):
    """Reuse tree of least estimated cost (ETO section 6): a directed Steiner tree that may use bridges.

    If a reuse pair has several sketches, it counts with the largest of their costs. When the fastest program
    of a task reveals its sketch, the estimates for tasks of the same kind use this sketch, and the tree is
    selected again (section 6.1). Tasks that have begun keep their place and cost nothing more.
    """

    def __init__(
        self,
        operators: Mapping[str, T],
        bridges: Mapping[str, T],
        *,
        kind: Callable[[T], Hashable],
        can_reuse: Callable[[T, T], bool],
        search_cost: Callable[[T], float],
        reuse_cost: Callable[[T, T, Hashable | None], float],
    ) -> None:
        """Creates a selection without estimating any cost.

        Args:
            operators: operators to search, by name.
            bridges: bridge operators, by name; see `bridges.one_hop_bridges`.
            kind: type and sketches of an operator.
            can_reuse: whether the second operator may reuse the first (Definition 2).
            search_cost: cost of the backend's search.
            reuse_cost: cost of searching the second operator from the first's program with a sketch; None
                stands for the sketch of the largest cost. It is evaluated again for each tree.
        """
        self._wanted = frozenset(operators)
        self._operators = {**bridges, **operators}
        self._kind = kind
        self._can_reuse = can_reuse
        self._search_cost = search_cost
        self._reuse_cost = reuse_cost
        self._observed: dict[Hashable, Hashable] = {}
        self._selected: ReuseTree | None = None

    def tree(self, begun: Mapping[str, str], sketches: Mapping[str, Hashable]) -> ReuseTree:
        """See ReuseSelection; it selects the tree again when a kind of operators reveals its first sketch."""
        observed = dict(self._observed)
        for name, sketch in sketches.items():
            if name in self._operators:
                observed.setdefault(self._kind(self._operators[name]), sketch)
        if self._selected is None or observed != self._observed:
            self._observed = observed
            self._selected = self._select(begun)
        return self._selected

    def _select(self, begun: Mapping[str, str]) -> ReuseTree:
        graph = choice_graph(
            self._operators,
            can_reuse=self._can_reuse,
            search_cost=self._search_cost,
            reuse_cost=self._estimated,
        )
        spent = {
            child: parent if parent in self._operators else ROOT  # or the parent has left the run
            for child, parent in begun.items()
            if child in self._operators
        }
        for child, parent in spent.items():
            graph.remove_edges_from(list(graph.in_edges(child)))
            graph.add_edge(parent, child, **{COST: 0.0})
        return steiner_tree(graph, self._wanted | set(spent))

    def _estimated(self, parent: T, child: T) -> float:
        return self._reuse_cost(parent, child, self._observed.get(self._kind(child)))
