"""Reuse tree of nearest neighbours: `search.reuse=auto`.

ETO estimates what each reuse pair costs. Here a child has a fixed number of programs, whoever its parent is,
so that costs tell no two parents apart. The distance of their loops does: the tree of a kind of tasks is its
minimum spanning tree, and one task of the kind is searched. Reuse condition (2) of Definition 2, that one
loop nest dominates the other, is left out: it serves the ranges of Algorithm 1, and decisions are adapted to
any extents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .similarity import Loops
from .tree import ROOT, ReuseTree


def nearest_neighbours(
    tasks: Sequence[str], loops: Mapping[str, Loops | None], tuned: Sequence[str] = ()
) -> ReuseTree:
    """Reuse tree of tasks, with those that are tuned already.

    Of each kind the first task is searched, unless one is tuned. A task that is tuned at another size has
    that task as its parent. Others join one by one, each time the one that is nearest to the tree (Prim's
    algorithm); of equal distances the first one joins.

    Args:
        tasks: names, the task to search first at the beginning.
        loops: loops of all tasks by name; a task without is searched by itself.
        tuned: names of tasks that earlier runs have tuned, and that are not among `tasks`.
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
        for name in joined:  # grows while it is read
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
    """The nearest of the tuned tasks whose loops are these at another size, None where there is none."""
    sizes = {name: theirs for name in tuned if (theirs := loops[name]) is not None and own.is_resized(theirs)}
    return min(sizes, key=lambda name: own.distance(sizes[name]), default=None)
