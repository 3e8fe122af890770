"""Directed Steiner tree: a cheap tree from a root to all terminals, which may include other vertices.

The selection of reuse pairs among operators and bridge operators is this problem (ETO section 6.2). ETO
solves it by Greedy_FLAC of Watel and Weisser, "A practical greedy approximation for the directed Steiner tree
problem", Journal of Combinatorial Optimization 32(4), 2016, pages 1327-1370. For k terminals, the cost of the
tree is at most k times the least cost.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection

import networkx as nx

from ...reuse.tree import ROOT, ReuseTree
from .graph import COST, ReuseGraphError, minimum_arborescence, tree_of

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
