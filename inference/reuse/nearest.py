"""Reuse tree of nearest neighbours: `search.reuse=auto`.

ETO estimates the cost of each reuse pair. Here every child measures a fixed number of programs, so the costs
of two parents do not differ. The distance between their loops does. The tree of a kind of tasks is therefore
its minimum spanning tree, and the run searches one task of the kind. Reuse condition (2) of Definition 2, the
dominance of one loop nest over the other, does not apply: it serves the ranges of Algorithm 1, whereas
decisions can be adapted to any extents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .similarity import Loops
from .tree import ROOT, ReuseTree


def nearest_neighbours(
    tasks: Sequence[str], loops: Mapping[str, Loops | None], tuned: Sequence[str] = ()
) -> ReuseTree:
    """Reuse tree of tasks, including tasks that earlier runs tuned.

    The first task of each kind is searched, unless a task of the kind is already tuned. A task that is tuned
    at another size has the tuned task as its parent. The other tasks join one by one. The task nearest to the
    tree joins next (Prim's algorithm), and the first of several tasks at equal distance.

    Args:
        tasks: names; the task to search first comes first.
        loops: loops of all tasks by name; a task without loops is searched alone.
        tuned: names of tasks that earlier runs tuned and that are not in `tasks`.
    """
    parents: dict[str, str] = {}
    kinds: dict[str, dict[str, Loops]] = {}
    for name in tasks:
        if (own := loops[name]) is None:
            parents[name] = ROOT
        else:
            kinds.setdefault(own.kind, {})[name] = own
    for kind, left in kinds.items():
        before = [name for name in tuned if (own := loops[name]) is not None and own.kind == kind]
        nearest = dict.fromkeys(left, (float("inf"), ROOT))
        roots = before or [next(iter(left))]
        resized = {
            name: parent for name, own in left.items() if (parent := _at_another_size(own, before, loops))
        }
        parents |= {**dict.fromkeys(roots, ROOT), **resized}
        joined = [*roots, *resized]
        for name in joined:  # grows during the iteration
            left.pop(name, None)
            own = loops[name]
            assert own is not None
            for other, their in left.items():
                if (distance := own.distance(their)) < nearest[other][0]:
                    nearest[other] = distance, name
            if left and name == joined[-1]:
                following = min(left, key=lambda other: nearest[other][0])
                parents[following] = nearest[following][1]
                joined.append(following)
    return ReuseTree(parents, {})


def _at_another_size(own: Loops, tuned: Sequence[str], loops: Mapping[str, Loops | None]) -> str | None:
    """The nearest tuned task with these loops at another size; None if no such task exists."""
    sizes = {name: theirs for name in tuned if (theirs := loops[name]) is not None and own.is_resized(theirs)}
    return min(sizes, key=lambda name: own.distance(sizes[name]), default=None)
