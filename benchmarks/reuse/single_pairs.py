"""Single reuse pairs by operator type: Figures 7 and 8 of ETO."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from foretune.compiler.task import Task
from foretune.dataset.measure import Executor
from foretune.dataset.sampling.tasks import TaskSamplingError, sample_tasks
from foretune.inference.eto.graph.search_cost import estimate_ratios
from foretune.inference.eto.published import PublishedTrees
from foretune.inference.reuse.conditions import can_reuse
from foretune.inference.reuse.config import ONE_HOP
from foretune.inference.reuse.donors import Donor
from foretune.inference.spaces.stock import StockSpace
from tvm.target import Target

from ..tasks import time_in_turns
from .methods import BACKEND, METHODS, STOCK, Searched, StockConfig, searched

TYPES: Mapping[str, str] = {
    "C1D": "conv1d",
    "C2D": "conv2d",
    "C3D": "conv3d",
    "BMM": "batch_matmul",
    "GRP": "group_conv2d",
    "DEP": "depthwise_conv2d",
    "T2D": "conv2d_transpose",
    "CAP": "capsule_conv2d",
    "WIN": "conv2d_winograd",
    "FRB": "frobenius_norm",
}
"""Operators by ETO's name of their type (section 7.1)."""

DRAWN = (8, 16, 32)
"""Operators drawn per type; more are drawn if there are too few pairs."""

LARGEST_FLOPS = 2e9
"""Most operations of a drawn operator: measuring a larger one takes minutes on two cores."""


@dataclass(frozen=True, eq=False)
class Pair:
    """A reuse pair of operators."""

    parent: Task
    child: Task
    estimated: float
    """Number of the child's programs that Algorithm 1 is expected to measure (section 6.1)."""

    @property
    def names(self) -> frozenset[str]:
        """Workload hashes of both."""
        return frozenset((self.parent.workload_hash, self.child.workload_hash))


def pairs_of(
    kind: str, count: int, target: Target, trials: int, drawn_counts: Sequence[int] = DRAWN
) -> list[Pair]:
    """Reuse pairs of a type, the same each time.

    As in the paper, the pairs consist of random operators and their 1-hop bridges, and pairs with an
    estimated search cost below the backend's come first. The cheapest of the others follow: the paper's
    backend has 1,000 trials. Pairs of operators that are already in use come before others, because the
    backend's searches dominate the time.
    """
    trees = PublishedTrees(target, StockSpace(None))
    found: list[Pair] = []
    for drawn in drawn_counts:
        try:
            tasks = _drawn(TYPES[kind], drawn)
        except TaskSamplingError:  # the prior has no more operators of the type
            break
        bridges = trees.least_cost(tasks, trials=trials, bridges=ONE_HOP).bridges
        found = list(_pairs([*tasks, *(replace(task, weight=1) for task in bridges)], trees))
        if sum(pair.estimated < trials for pair in found) >= count:
            break
    random.Random(0).shuffle(found)
    return chosen(found, count, trials)


def chosen(pairs: Sequence[Pair], count: int, trials: int) -> list[Pair]:
    """Pairs that cost less than the backend's trials, then the cheapest; both parts use few operators."""
    left = sorted(pairs, key=lambda pair: max(pair.estimated, trials))
    found: list[Pair] = []
    names: set[str] = set()
    while left and len(found) < count:
        best = min(left, key=lambda pair: (pair.estimated >= trials, len(pair.names - names)))
        left.remove(best)
        found.append(best)
        names |= best.names
    return found


def _drawn(operator: str, count: int) -> list[Task]:
    """Operators of float32 in the layout of the zoos, with batches of 1 and 16, as in the paper."""
    return sample_tasks(
        n=count,
        seed=0,
        operators={operator: 1.0},
        max_flops=LARGEST_FLOPS,
        hold_out_evaluation=False,
        batches=(1, 16),
        channels_last=0.0,
        prepack=0.0,
    )


def _pairs(tasks: Sequence[Task], trees: PublishedTrees) -> Iterator[Pair]:
    described = [found for task in tasks if (found := trees.describe(task))]
    for parent in described:
        for child in described:
            if parent is not child and can_reuse(parent.operator, child.operator):
                yield Pair(parent.task, child.task, trees.cost(parent, child))


def one_pair(
    pair: Pair,
    source: Searched,
    backend: Searched,
    pool: Executor,
    target: Target,
    *,
    trials: int,
    seed: int,
    timed: bool = True,
    stock: StockConfig = STOCK,
) -> dict[str, Any]:
    """Searches of the child by each method, whose best programs are timed in turns.

    Args:
        source: the backend's search of the parent.
        backend: its search of the child.
        timed: False uses the latencies of the searches instead, for a rehearsal.
        stock: the backend's search.
    """
    donor = Donor(pair.parent, source.measured)
    found = {BACKEND: backend}
    for method in METHODS:
        if method != BACKEND:
            found[method] = searched(
                method, pair.child, target, pool, donor=donor, trials=trials, seed=seed, stock=stock
            )
    ran = {method: one.best for method, one in found.items() if one.best is not None}
    if timed:
        latencies_s = time_in_turns(list(ran.values()), target, flush=True)
    else:
        latencies_s = [min(found[method].latencies_s) for method in ran]
    return {
        "parent": pair.parent.name,
        "child": pair.child.name,
        "estimated": pair.estimated,
        "methods": {method: one.summary() for method, one in found.items()},
        "latency_s": dict(zip(ran, latencies_s, strict=True)),
    }


def is_of(run: Mapping[str, Any], pair: Pair) -> bool:
    """Whether a kept run belongs to a pair."""
    return run["parent"] == pair.parent.name and run["child"] == pair.child.name


def estimates(runs: Sequence[Mapping[str, Any]]) -> dict[str, float] | None:
    """Ratios of estimated to measured programs of Algorithm 1 (section 6.1); None for no run of it."""
    pairs = [
        (run["estimated"], run["methods"]["eto"]["programs"])
        for run in runs
        if not run["methods"]["eto"]["by_backend"]
    ]
    return asdict(estimate_ratios(pairs)) if pairs else None


def describe(kind: str, run: Mapping[str, Any]) -> str:
    """One line about a pair."""
    parts = [
        f"{method} {run['methods'][method]['programs']} programs "
        + (f"{1e3 * run['latency_s'][method]:.4f} ms" if method in run["latency_s"] else "nothing ran")
        for method in METHODS
    ]
    return f"{kind} {run['child']} from {run['parent']}: {', '.join(parts)}"
