"""Reuse relationships of a set of operators: a tree whose root represents the backend's search."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Mapping
from dataclasses import dataclass

from ...errors import UserError

ROOT = ""
"""Name of the root, the parent of operators that the backend searches. No operator has this name."""


class ReuseTreeError(UserError, ValueError):
    """The reuse relationships do not form a tree."""


@dataclass(frozen=True)
class ReuseTree:
    """Parent of each operator: ROOT, or the operator whose program it reuses (ETO section 4, Figure 4).

    Raises ReuseTreeError if a parent is missing or operators wait for each other.
    """

    parents: Mapping[str, str]
    """Parent of each child, by the child's name."""
    costs: Mapping[str, float]
    """Estimated cost of searching each operator from its parent: programs, or seconds."""

    def __post_init__(self) -> None:
        if ROOT in self.parents:
            raise ReuseTreeError("the root has a parent; leave it out of `parents`")
        for child, parent in self.parents.items():
            if parent != ROOT and parent not in self.parents:
                raise ReuseTreeError(
                    f"{child} reuses {parent}, which is no operator of the tree; add it, or give ROOT"
                )
        if cycle := cycle_of(self.parents):
            raise ReuseTreeError(
                f"{' reuses '.join([*cycle, cycle[0]])}: none of them can be first; give one of them ROOT as "
                "its parent"
            )

    @property
    def cost(self) -> float:
        """Sum of the costs."""
        return sum(self.costs.values())

    @property
    def searched(self) -> list[str]:
        """Operators that the backend searches."""
        return self.children(ROOT)

    def children(self, parent: str) -> list[str]:
        """Operators that reuse `parent`."""
        return [child for child, other in self.parents.items() if other == parent]

    def in_order(self) -> Iterator[tuple[str, int]]:
        """Yields each operator after its parent, with its depth: 0 if the backend searches it."""
        waiting = [(name, 0) for name in reversed(self.searched)]
        while waiting:
            name, depth = waiting.pop()
            yield name, depth
            waiting += [(child, depth + 1) for child in reversed(self.children(name))]

    def descendants(self, name: str) -> list[str]:
        """Operators that reuse `name`, directly or through other operators."""
        found = self.children(name)
        for child in found:  # grows during the iteration
            found += self.children(child)
        return found


def left_tree(parents: Mapping[str, str], gone: Collection[str]) -> dict[str, str]:
    """The parents if some operators are not searched, so that no operator has one of these as its parent.

    Children follow the parent of an operator that is gone. If that is the root, the first child takes the
    place of its parent, and the others follow it.
    """
    heirs: dict[str, str] = {}

    def parent_of(name: str) -> str:
        parent = parents[name]
        while parent in gone:
            if (before := parents.get(parent, ROOT)) == ROOT:
                heir = heirs.setdefault(parent, name)
                return ROOT if heir == name else heir
            parent = before
        return parent

    kept = {name: parent_of(name) for name in parents if name not in gone}
    return {name: kept[name] if name in kept else parent_of(name) for name in parents}


def without_cycles(parents: Mapping[str, str], kept: Container[str]) -> dict[str, str]:
    """The parents with one operator of each cycle moved to ROOT, so that all can be searched.

    A cycle arises when relationships of earlier runs, `kept`, meet the relationships of a new tree. An
    operator that is not in `kept` moves to ROOT, if the cycle has one.
    """
    found = dict(parents)
    while circle := cycle_of(found):
        found[min(circle, key=lambda name: name in kept)] = ROOT
    return found


def cycle_of(parents: Mapping[str, str]) -> list[str]:
    """Operators that reuse each other in a cycle, each the parent of the one before; empty without a cycle.

    A parent that is not a key of `parents` ends the path, as the root does.
    """
    safe = {ROOT}
    for start in parents:
        path, last = {start: None}, start  # a dictionary, to look up names in long chains
        while last not in safe and last in parents:
            last = parents[last]
            if last in path:
                names = list(path)
                return names[names.index(last) :]
            path[last] = None
        safe.update(path)
    return []
