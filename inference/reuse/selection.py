"""Selection of the reuse tree of a run; `least_cost.py` has that of ETO."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping

from .tree import ReuseTree


class ReuseSelection(ABC):
    """Selects whose programs each task of a run begins with."""

    @abstractmethod
    def tree(self, begun: Mapping[str, str], sketches: Mapping[str, Hashable]) -> ReuseTree:
        """The reuse tree, given what is known by now. Tasks that are not in it are not searched.

        Args:
            begun: parent of each task whose search has begun or is over: it stays.
            sketches: sketch of the fastest program of tasks that have one.
        """


class GivenSelection(ReuseSelection):
    """Reuse tree that does not change."""

    def __init__(self, tree: ReuseTree) -> None:
        self._tree = tree

    def tree(self, begun: Mapping[str, str], sketches: Mapping[str, Hashable]) -> ReuseTree:
        """See ReuseSelection."""
        return self._tree
