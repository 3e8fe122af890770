"""Each sketch's share of a generation, and the drafts that the search keeps at its end."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .drafts import DraftRequest
from .population import Population


def shares(populations: Sequence[Population], total: int, best: Sequence[int] | None = None) -> list[int]:
    """Number of candidates per sketch: half split evenly, half by the sketch's share of the best."""
    even = total / len(populations)
    if best is None or not sum(best):
        return [max(round(even), 1) for _ in populations]
    return [max(round(0.5 * even + 0.5 * total * part / sum(best)), 1) for part in best]


def best_scores(populations: Sequence[Population], count: int) -> list[int]:
    """Number of candidates of each sketch among the `count` best of all sketches."""
    scores = np.concatenate([population.scores for population in populations])
    owner = np.repeat(np.arange(len(populations)), [len(p.scores) for p in populations])
    best = np.argsort(-scores, kind="stable")[: max(count, 1)]
    return np.bincount(owner[best], minlength=len(populations)).tolist()


def kept_traces(
    populations: Sequence[Population], request: DraftRequest, known: set[str], rng: np.random.Generator
) -> list[str]:
    """Traces of the best candidates that are not all similar, followed by some random ones."""
    scores = np.concatenate([population.scores for population in populations])
    owner = np.repeat(np.arange(len(populations)), [len(p.scores) for p in populations])
    row = np.concatenate([np.arange(len(p.scores)) for p in populations])
    at_random = min(round(request.random_share * request.keep), request.keep - 1)
    kept: list[str] = []
    chosen: list[list[int]] = [[] for _ in populations]
    used: set[int] = set()

    def take(index: int) -> None:
        (trace,) = populations[owner[index]].traces(row[index : index + 1])
        used.add(index)
        if trace not in known:
            chosen[owner[index]].append(int(row[index]))
            kept.append(trace)

    order: NDArray[np.int64] = np.argsort(-scores, kind="stable")
    passed_over: list[int] = []
    for index in order.tolist():
        if len(kept) >= request.keep - at_random:
            break
        of_sketch = populations[owner[index]]
        if of_sketch.neighbours(int(row[index]), chosen[owner[index]]) < request.neighbours:
            take(index)
        else:
            passed_over.append(index)
    rest = [int(i) for i in rng.permutation(len(scores)) if int(i) not in used]
    for index in [*rest[:at_random], *passed_over, *rest[at_random:]]:
        if len(kept) >= request.keep:
            break
        if index not in used:
            take(index)
    return kept
