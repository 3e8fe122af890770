"""Optimisation-choice graph of ETO section 6, and the selection of reuse pairs without additional operators.

An edge is one way to optimise the operator at its head. An edge from the root means the backend's search, and
an edge from another operator means reuse of its program. The weight is the estimated cost.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TypeVar

import networkx as nx

from ....errors import UserError
from ...reuse.tree import ROOT, ReuseTree

COST = "cost"
"""Name of the edge attribute that holds the cost."""

_UNITS = 10**6
"""Units per program or second, in which costs are compared: millionths of a program, or microseconds."""

T = TypeVar("T")


class ReuseGraphError(UserError, ValueError):
    """The optimisation-choice graph has no reuse tree."""


def choice_graph(
    operators: Mapping[str, T],
    *,
    can_reuse: Callable[[T, T], bool],
    search_cost: Callable[[T], float],
    reuse_cost: Callable[[T, T], float],
) -> nx.DiGraph:
    """Optimisation-choice graph with an edge from ROOT to each operator, and an edge for each reuse pair.

    Args:
        operators: operators by name.
        can_reuse: whether the second operator may reuse the first (Definition 2).
        search_cost: cost of the backend's search of an operator.
        reuse_cost: cost of searching the second operator from the first's program; inf if that is impossible.

    Raises ReuseGraphError for a cost that is negative or not a number, and for a search that never ends.
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

    Among several such trees it is the one without the last edges in the order of (parent, child), whatever
    the order of the graph. At equal costs, therefore, the backend wins over reuse. Costs count in millionths.

    Raises ReuseGraphError if the root does not reach an operator.
    """
    lost = sorted(set(graph.nodes) - {ROOT} - (nx.descendants(graph, ROOT) if ROOT in graph else set()))
    if lost:
        raise ReuseGraphError(
            f"no edges lead from the root to {', '.join(lost)}; add what the backend's search of them costs"
        )
    names = sorted(graph.nodes)
    number = {name: place for place, name in enumerate(names)}
    edges = sorted((u, v) for u, v in graph.edges if v != ROOT and u != v)
    # Sums of distinct powers of two order the edge sets of equal cost, which makes the minimum unique.
    weights = {
        (parent, child): (round(graph.edges[parent, child][COST] * _UNITS) << len(edges)) | (1 << rank)
        for rank, (parent, child) in enumerate(edges)
    }
    # With this bonus for each edge, no branching with fewer edges weighs more. The bonus in networkx's own
    # minimum_spanning_arborescence is too small if the root has few edges.
    bonus = sum(weights.values()) + 1
    plain = nx.DiGraph()
    plain.add_nodes_from(range(len(names)))
    plain.add_weighted_edges_from((number[u], number[v], bonus - weights[u, v]) for u, v in edges)
    chosen = nx.maximum_branching(plain) if edges else plain
    parents = {names[child]: names[parent] for parent, child in chosen.edges}
    return tree_of(graph, {name: parents[name] for name in names if name != ROOT})


def tree_of(graph: nx.DiGraph, parents: Mapping[str, str]) -> ReuseTree:
    """The tree with these parents and with the costs of the graph's edges."""
    costs = {child: float(graph.edges[parent, child][COST]) for child, parent in parents.items()}
    return ReuseTree(dict(parents), costs)


def _checked(cost: float, what: str) -> float:
    if math.isnan(cost) or cost < 0:
        raise ReuseGraphError(f"the cost of {what} is {cost}; give a number that is at least 0")
    return cost
