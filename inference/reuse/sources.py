"""Reuse tree with one source a kind: `search.reuse=auto`.

ETO estimates what each reuse pair costs. Here a child has a fixed number of programs, whoever its parent is,
so that one task of each kind is searched and all others are its children: the arborescence of equal costs.
Reuse condition (2) of Definition 2, that one loop nest dominates the other, is left out: it serves the ranges
of Algorithm 1, and decisions are adapted to any extents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .likeness import Loops
from .tree import ROOT, ReuseTree


def one_source_a_kind(
    tasks: Sequence[str], loops: Mapping[str, Loops | None], tuned: Sequence[str] = ()
) -> ReuseTree:
    """Reuse tree of tasks, with those of its library that it uses.

    The parent of a task is the nearest tuned one of its kind. Where none is tuned, the first task of the
    kind is searched, and is the parent of the others.

    Args:
        tasks: names, the task to search first at the beginning.
        loops: loops of all tasks by name; a task without is searched by itself.
        tuned: names of tasks that earlier runs have tuned, and that are not among `tasks`.
    """
    kinds: dict[str, str] = {}
    parents: dict[str, str] = {}
    for name in tasks:
        own = loops.get(name)
        if own is None:
            parents[name] = ROOT
            continue
        near = [
            (own.distance(other), donor) for donor in tuned if (other := loops.get(donor)) and other.kind == own.kind
        ]
        parents[name] = min(near)[1] if near else kinds.setdefault(own.kind, name)
        if parents[name] == name:
            parents[name] = ROOT
        elif near:
            parents[parents[name]] = ROOT
    return ReuseTree(parents, {})
