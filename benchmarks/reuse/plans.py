"""Reuse trees that ETO plans for the operator sets from its estimates, before any measurement."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from foretune.compiler.tvm_compat import parse_target
from foretune.inference.eto.published import PublishedTrees
from foretune.inference.reuse.config import BRIDGES
from foretune.inference.spaces.stock import StockSpace

from .operator_sets import tasks_of

TRIALS = (16, 32, 64, 256, 1000)
"""Programs that the backend measures for an operator; the paper uses the last number."""


def plans(name: str) -> Iterator[dict[str, Any]]:
    """Yields the plan of each number of trials and kind of bridges for a set.

    `backend` and `estimated` are the numbers of programs of the backend's searches alone and of the tree; an
    operator without reuse counts with the backend's number in both.
    """
    target = parse_target("llvm")
    tasks = tasks_of(name)
    own = {task.workload_hash for task in tasks}
    trees = PublishedTrees(target, StockSpace(None))
    for bridges in BRIDGES:
        for trials in TRIALS:
            selected = trees.least_cost(tasks, trials=trials, bridges=bridges)
            tree = selected.selection.tree({}, {})
            unread = len(own - tree.parents.keys())
            yield {
                "bridges": bridges,
                "trials": trials,
                "operators": len(tasks),
                "searched": unread + len(own.intersection(tree.searched)),
                "bridges_taken": len(tree.parents.keys() - own),
                "backend": trials * len(tasks),
                "estimated": tree.cost + trials * unread,
            }
