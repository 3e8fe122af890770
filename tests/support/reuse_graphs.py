"""Small optimisation-choice graphs, and the best trees in them by trying all."""

from __future__ import annotations

import itertools
import math

import networkx as nx
from foretune.inference.eto.graph.graph import COST
from foretune.inference.reuse.tree import ROOT
from hypothesis import strategies as st


def graph_of(costs):
    """Graph of a mapping from (parent, child) to cost."""
    graph = nx.DiGraph()
    graph.add_node(ROOT)
    for (parent, child), cost in costs.items():
        graph.add_edge(parent, child, **{COST: cost})
    return graph


def is_reachable(parents):
    """Whether each child reaches the root by its parents."""
    for name in parents:
        seen = set()
        while name != ROOT:
            if name in seen or name not in parents:
                return False
            seen.add(name)
            name = parents[name]
    return True


def least_cost(costs, terminals, others=()):
    """Least cost of a tree from the root that spans the terminals, with any of the others; inf for none."""
    best = math.inf
    for count in range(len(others) + 1):
        for helpers in itertools.combinations(others, count):
            names = [*terminals, *helpers]
            choices = [[p for p in (ROOT, *names) if (p, name) in costs] for name in names]
            for parents in itertools.product(*choices):
                chosen = dict(zip(names, parents, strict=True))
                if is_reachable(chosen):
                    best = min(best, sum(costs[parent, child] for child, parent in chosen.items()))
    return best


@st.composite
def choice_costs(draw, terminals, others=(), rooted=True):
    """Costs of a graph with some reuse edges; `rooted` graphs have an edge from the root to each vertex."""
    cost = st.one_of(st.integers(0, 20), st.floats(0.01, 20.0))
    names = [*terminals, *others]
    from_root = {(ROOT, name): draw(cost) for name in names if rooted or draw(st.booleans())}
    pairs = [pair for pair in itertools.permutations(names, 2) if draw(st.booleans())]
    return from_root | {pair: draw(cost) for pair in pairs}
