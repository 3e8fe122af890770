"""Selection of the reuse tree of least estimated cost (ETO section 6).

The selection of reuse pairs among operators and bridge operators is a directed Steiner tree: a cheap tree
from a root to all terminals, which may include other vertices (section 6.2). ETO finds it by Greedy_FLAC of
Watel and Weisser, "A practical greedy approximation for the directed Steiner tree problem", Journal of
Combinatorial Optimization 32(4), 2016, pages 1327-1370. For k terminals, the cost of the tree is at most k
times the least cost.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Collection, Hashable, Mapping
from typing import Generic, TypeVar

import networkx as nx

from ...reuse.selection import ReuseSelection
from ...reuse.tree import ROOT, ReuseTree
from .graph import COST, ReuseGraphError, choice_graph, minimum_arborescence, tree_of

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


Arc = tuple[str, str]


def steiner_tree(graph: nx.DiGraph, terminals: Collection[str]) -> ReuseTree:
    """Reuse tree that spans all terminals; its cost is at most `len(terminals)` times the least cost.

    Greedy_FLAC chooses the vertices. A minimum-cost arborescence then connects them, and other vertices that
    lead to no terminal are removed. Both steps can only lower the cost of the greedy tree. Without other
    vertices, the result is the minimum-cost arborescence.

    Raises ReuseGraphError if the root does not reach a terminal.
    """
    wanted = set(terminals)
    chosen = {ROOT}.union(wanted, *greedy_flac(graph, wanted))
    parents = dict(minimum_arborescence(graph.subgraph(chosen)).parents)
    while spare := set(parents) - wanted - set(parents.values()):
        parents = {child: parent for child, parent in parents.items() if child not in spare}
    return tree_of(graph, parents)


def greedy_flac(graph: nx.DiGraph, terminals: Collection[str]) -> set[Arc]:
    """Arcs of Greedy_FLAC: it repeats FLAC until all terminals are reached; arcs of earlier trees are free.

    Raises ReuseGraphError if the root does not reach a terminal.
    """
    left = set(terminals) - {ROOT}
    lost = sorted(left - (nx.descendants(graph, ROOT) if ROOT in graph else set()))
    if lost:
        raise ReuseGraphError(f"no edges lead from the root to {', '.join(lost)}; add edges to them")
    arcs: set[Arc] = set()
    while left:
        tree = _Flow(graph, left, arcs).tree()
        arcs |= tree
        left -= {head for _, head in tree}
    return arcs


class _Flow:
    """One run of FLAC: a tree with a low cost per terminal that it reaches.

    Water springs from each terminal and flows against the direction of the arcs. The capacity of an arc is
    its cost. All arcs into a vertex fill at the same rate, the number of terminals that the vertex reaches
    through full arcs. An arc that fills is left out if its tail, or a vertex that reaches its tail, already
    reaches one of the same terminals on another path. Otherwise it passes the water on to the arcs into its
    tail. When an arc from the root is full, all full arcs that the root reaches form the tree.
    """

    def __init__(self, graph: nx.DiGraph, terminals: Collection[str], free: Collection[Arc]) -> None:
        """`free` arcs cost nothing, because earlier trees have paid for them."""
        self._names = sorted(graph.nodes)
        number = {name: place for place, name in enumerate(self._names)}
        self._root = number[ROOT]
        self._entering: list[list[tuple[float, int]]] = [[] for _ in self._names]
        """(cost, tail) of the arcs into each vertex, in the order in which they fill."""
        for tail, head, cost in graph.edges(data=COST):
            if tail != head and head != ROOT:
                cost = 0.0 if (tail, head) in free else float(cost)
                self._entering[number[head]].append((cost, number[tail]))
        for arcs in self._entering:
            arcs.sort()
        count = len(self._names)
        self._next = [0] * count  # number of arcs into each vertex that are full or left out
        self._level = [0.0] * count  # water in each arc into a vertex that is not full
        self._read_at = [0.0] * count  # time of this level
        self._reached = [0] * count  # terminals that each vertex reaches through full arcs, one bit each
        self._heads: list[list[int]] = [[] for _ in self._names]  # full arcs
        self._tails: list[list[int]] = [[] for _ in self._names]
        self._queue: list[tuple[float, bool, int, int]] = []
        for bit, terminal in enumerate(sorted(number[name] for name in terminals)):
            self._reached[terminal] = 1 << bit
            self._wait(terminal, 0.0)

    def tree(self) -> set[Arc]:
        """Arcs of the tree."""
        while True:
            now, _, head, place = heapq.heappop(self._queue)
            if place != self._next[head]:
                continue  # more water reached this vertex, so that the arc was full earlier
            _, tail = self._entering[head][place]
            self._rise(head, now)
            self._next[head] += 1
            self._wait(head, now)
            if tail == self._root:
                self._heads[tail].append(head)
                return set(self._full_arcs())
            behind = self._behind(tail)
            if any(self._reached[vertex] & self._reached[head] for vertex in behind):
                continue
            self._heads[tail].append(head)
            self._tails[head].append(tail)
            for vertex in behind:
                self._rise(vertex, now)
                self._reached[vertex] |= self._reached[head]
                self._wait(vertex, now)

    def _rate(self, vertex: int) -> int:
        return bin(self._reached[vertex]).count("1")

    def _rise(self, vertex: int, now: float) -> None:
        """Updates the level of the arcs into a vertex."""
        self._level[vertex] += self._rate(vertex) * (now - self._read_at[vertex])
        self._read_at[vertex] = now

    def _time_of_next(self, vertex: int) -> float:
        """Time at which the next arc into a vertex is full; inf if no arc is left."""
        if self._next[vertex] == len(self._entering[vertex]):
            return math.inf
        missing = self._entering[vertex][self._next[vertex]][0] - self._level[vertex]
        return self._read_at[vertex] + max(missing, 0.0) / self._rate(vertex)

    def _wait(self, vertex: int, now: float) -> None:
        """Queues the next arc into a vertex; among arcs that fill simultaneously, the root's come first."""
        time = self._time_of_next(vertex)
        if time < math.inf:
            place = self._next[vertex]
            from_root = self._entering[vertex][place][1] == self._root
            heapq.heappush(self._queue, (max(time, now), not from_root, vertex, place))

    def _behind(self, vertex: int) -> list[int]:
        """The vertex and all vertices that reach it through full arcs, each once."""
        found = [vertex]
        for known in found:  # grows during the iteration
            found += [tail for tail in self._tails[known] if tail not in found]
        return found

    def _full_arcs(self) -> list[Arc]:
        """Full arcs that the root reaches."""
        found, reached = [], [self._root]
        for tail in reached:  # grows during the iteration
            found += [(self._names[tail], self._names[head]) for head in self._heads[tail]]
            reached += self._heads[tail]
        return found
