"""Selection of the reuse tree of a run; `least_cost.py` implements ETO's selection."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping

from .tree import ReuseTree


class ReuseSelection(ABC):
    """Selects the tasks whose programs start the search of each task of a run."""

    @abstractmethod
    def tree(self, begun: Mapping[str, str], sketches: Mapping[str, Hashable]) -> ReuseTree:
        """The reuse tree from the current knowledge. Tasks that are not in it are not searched.

        Args:
            begun: parent of each task whose search has begun or ended; such a parent stays.
            sketches: sketch of the fastest program of each task that has one.
        """


class GivenSelection(ReuseSelection):
    """Reuse tree that never changes."""

    def __init__(self, tree: ReuseTree) -> None:
        self._tree = tree

    def tree(self, begun: Mapping[str, str], sketches: Mapping[str, Hashable]) -> ReuseTree:
        """See ReuseSelection."""
        return self._tree
