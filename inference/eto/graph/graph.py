"""Optimisation-choice graph of ETO section 6, and the selection of reuse pairs without further operators.

An edge is one way to optimise the operator at its head: from the root by the backend's search, from another
operator by reuse of its program. The weight is the estimated cost of that way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TypeVar

import networkx as nx

from ....errors import UserError
from ...reuse.tree import ROOT, ReuseTree

COST = "cost"
"""Attribute of an edge: its cost."""

_UNITS = 10**6
"""Costs are compared in parts of so many: millionths of a program, or microseconds."""

T = TypeVar("T")


class ReuseGraphError(UserError, ValueError):
    """An optimisation-choice graph that has no reuse tree."""


def choice_graph(
    operators: Mapping[str, T],
    *,
    can_reuse: Callable[[T, T], bool],
    search_cost: Callable[[T], float],
    reuse_cost: Callable[[T, T], float],
) -> nx.DiGraph:
    """Optimisation-choice graph: an edge from ROOT to each operator, and one for each reuse pair.

    Args:
        operators: by name.
        can_reuse: whether the second may reuse the first (Definition 2).
        search_cost: cost of the backend's search of an operator.
        reuse_cost: cost of searching the second from the first's program; inf where that is no choice.

    Raises ReuseGraphError for a cost that is negative or not a number, and for a search without an end.
    """
    graph = nx.DiGraph()
    graph.add_node(ROOT)
    for name, operator in operators.items():
        cost = _checked(search_cost(operator), f"the backend's search of {name}")
        if math.isinf(cost):
            raise ReuseGraphError(f"the backend's search of {name} costs inf; give a number of programs")
        graph.add_edge(ROOT, name, **{COST: cost})
    for parent, first in operators.items():
        for child, second in operators.items():
            if parent == child or not can_reuse(first, second):
                continue
            cost = _checked(reuse_cost(first, second), f"{child} from {parent}")
            if math.isfinite(cost):
                graph.add_edge(parent, child, **{COST: cost})
    return graph


def minimum_arborescence(graph: nx.DiGraph) -> ReuseTree:
    """Reuse tree of minimum cost over all operators: the min-cost arborescence (Definition 4).

    Of several, the one without the last edges in the order of (parent, child) is taken, whatever the order of
    the graph: where costs are equal, the backend comes before reuse. Costs count in millionths.

    Raises ReuseGraphError where the root does not reach an operator.
    """
    lost = sorted(set(graph.nodes) - {ROOT} - (nx.descendants(graph, ROOT) if ROOT in graph else set()))
    if lost:
        raise ReuseGraphError(
            f"no edges lead from the root to {', '.join(lost)}; add what the backend's search of them costs"
        )
    names = sorted(graph.nodes)
    number = {name: place for place, name in enumerate(names)}
    edges = sorted((u, v) for u, v in graph.edges if v != ROOT and u != v)
    # Sums of distinct powers of two order sets of edges of equal cost, so that there is one minimum.
    weights = {
        (parent, child): (round(graph.edges[parent, child][COST] * _UNITS) << len(edges)) | (1 << rank)
        for rank, (parent, child) in enumerate(edges)
    }
    # With this bonus for each edge, no branching of fewer edges weighs more. The bonus of networkx's own
    # minimum_spanning_arborescence is too small where the root has few edges.
    bonus = sum(weights.values()) + 1
    plain = nx.DiGraph()
    plain.add_nodes_from(range(len(names)))
    plain.add_weighted_edges_from((number[u], number[v], bonus - weights[u, v]) for u, v in edges)
    chosen = nx.maximum_branching(plain) if edges else plain
    parents = {names[child]: names[parent] for parent, child in chosen.edges}
    return tree_of(graph, {name: parents[name] for name in names if name != ROOT})


def tree_of(graph: nx.DiGraph, parents: Mapping[str, str]) -> ReuseTree:
    """The tree with these parents and the costs of the graph's edges."""
    costs = {child: float(graph.edges[parent, child][COST]) for child, parent in parents.items()}
    return ReuseTree(dict(parents), costs)


def _checked(cost: float, what: str) -> float:
    if math.isnan(cost) or cost < 0:
        raise ReuseGraphError(f"the cost of {what} is {cost}; give a number that is at least 0")
    return cost
