"""Reuse searches for tests: driven by a cost, and parents that were drawn at random."""

from __future__ import annotations

import numpy as np
from foretune.compiler.replay import candidate_trace_json, replay
from foretune.compiler.structure.read_spaces import gpu_limits
from foretune.compiler.task import Task
from foretune.inference.eto.search.search import ReuseSearch, ReuseTarget, reuse_search
from foretune.inference.reuse.parent import ReuseParent

from support.reuse import CPU, SM_80, context_of, spaces_of


def target_of(name: str):
    """TVM's target of the name, cuda or llvm."""
    return SM_80 if name == "cuda" else CPU


def search_of(child: Task, parent: ReuseParent, name: str = "cuda") -> ReuseSearch:
    """Search of a child by a program on the target of the name."""
    limits = gpu_limits(target_of(name))
    return reuse_search(child, spaces_of(child, name), parent, ReuseTarget(limits))


def driven(search, cost):
    """Steps of a search that is sent the costs of its candidates, and its result."""
    steps, answer = [], None
    try:
        while True:
            rows = search.send(answer)
            steps.append(rows)
            answer = {row: cost(row) for row in rows}
    except StopIteration as end:
        return steps, end.value


def random_parent(task: Task, name: str, seed: int = 0, sketch: int = 0) -> ReuseParent:
    """A valid program of a sketch of a task, drawn at random."""
    space = spaces_of(task, name)[sketch]
    context = context_of(task, target_of(name))
    for trace in space.traces(space.sample(2000, np.random.default_rng(seed))):
        if (candidate := replay(context, trace)) is not None:
            return ReuseParent(task, candidate_trace_json(candidate))
    raise AssertionError(f"no valid program of {task.name}")
