"""Selective Tuning: tasks with common steps share the programs of one task (a baseline in ETO section 7).

The command offers it as `search.reuse=selective`, so that it is part of the product.

"[RFC][AutoTVM] Selective Tuning", TVM issue 4188, 2019; ETO cites it as [19]. The similarity of two tasks is
the overlap of their search spaces. Tasks that are pairwise similar, the maximal cliques, form a cluster. One
task of a cluster is searched, and the other tasks reuse its fastest programs.

Decisions replace AutoTVM's configurations here. The description of a tile omits its outermost factor, which
TVM computes from the extent. A step of 64 iterations may therefore also be a step of 128 iterations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import combinations
from typing import TypeAlias

import networkx as nx

from ....compiler.structure.space import SketchSpace
from ...reuse.tree import ROOT

THRESHOLD = 0.01
"""Similarity at which two tasks may share a cluster: the RFC's value, which ETO also uses (section 7.2)."""

Steps: TypeAlias = frozenset[tuple[int, ...]]
"""Values that a decision can take."""

Space: TypeAlias = Mapping[Hashable, Sequence[Steps]]
"""Values of all decisions, by sketch."""


def steps_of(space: SketchSpace) -> list[Steps]:
    """Values of each decision of a sketch, without the outermost factor of tiles."""
    return [
        frozenset(tuple(row[1:] if decision.kind == "tile" else row) for row in table.tolist())
        for decision, table in zip(space.sketch.decisions, space.domains, strict=True)
    ]


def similarity(first: Space, second: Space) -> float:
    """Ratio of the candidates in both spaces to the candidates in either, in [0, 1]; 0 for empty spaces."""
    common = sum(
        math.prod(len(one & other) for one, other in zip(first[sketch], second[sketch], strict=True))
        for sketch in first.keys() & second.keys()
        if len(first[sketch]) == len(second[sketch])
    )
    either = _size(first) + _size(second) - common
    return common / either if either else 0.0


def selective_tuning(
    names: Sequence[str], likeness: Callable[[str, str], float], threshold: float = THRESHOLD
) -> dict[str, str]:
    """Parent of each task: ROOT for the representative of a cluster, which the other tasks reuse.

    A task in several maximal cliques joins the clique in which the sum of its similarities is largest. The
    representative is the task with the largest sum of similarities to the rest of its cluster. The first name
    wins a tie.

    Args:
        names: the tasks.
        likeness: similarity of two tasks.
        threshold: similarity at which tasks may share a cluster.
    """
    ordered = sorted(names)
    pairs = {(a, b): likeness(a, b) for a, b in combinations(ordered, 2)}
    pairs |= {(b, a): value for (a, b), value in pairs.items()}
    graph = nx.Graph()
    graph.add_nodes_from(ordered)
    graph.add_edges_from(pair for pair, value in pairs.items() if value >= threshold)
    cliques = sorted(sorted(clique) for clique in nx.find_cliques(graph))

    def closeness(name: str, others: Sequence[str]) -> float:
        return sum(pairs[name, other] for other in others if other != name)

    clusters: dict[int, list[str]] = {}
    for name in ordered:
        around = [number for number, clique in enumerate(cliques) if name in clique]
        clusters.setdefault(max(around, key=lambda at: closeness(name, cliques[at])), []).append(name)
    parents: dict[str, str] = {}
    for cluster in clusters.values():
        representative = max(cluster, key=lambda name: closeness(name, cluster))
        parents |= {name: ROOT if name == representative else representative for name in cluster}
    return parents


def _size(space: Space) -> int:
    return sum(math.prod(map(len, steps)) for steps in space.values())
