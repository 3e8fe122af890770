"""Drafts: candidates that are rated by their decisions and not replayed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ....compiler.structure.nest import Nest
from ....errors import UserError

STORE_S = 1.1e-3
"""Seconds that LLVM spends on each store that a program may unroll: mean of seven tasks on an AMD Zen 3."""

FIXED_S = 0.5
"""Seconds for the rest of replaying, building and timing; only ratios of costs matter."""


class DraftRequestError(UserError, ValueError):
    """A value of a draft request is out of range."""


@dataclass(frozen=True)
class DraftRequest:
    """Size of one draft, the number of candidates that it keeps, and its seed.

    Each generation rates `population` new candidates. They are children of the best candidates so far, by
    mutation or crossover, and some random candidates. `DraftingConfig` holds the settings of a search, which
    drafts once per round.
    """

    population: int
    generations: int
    # Number of candidates that the draft returns.
    keep: int
    # Share of the children that are mutated; the others are crossovers of two parents.
    mutation_probability: float = 0.7
    # Random share of each generation and of the kept candidates: insurance against a wrong model.
    random_share: float = 0.05
    # Share of a CPU's candidates that evolves separately, among programs with an innermost loop that
    # MetaSchedule vectorises. LLVM vectorises other programs as well. A single evolution converges on these
    # if a model prefers them. Programs vectorised by MetaSchedule compile faster and run as fast or faster
    # (benchmarks/results/constants).
    vectorised_share: float = 0.5
    # Share of a CPU's candidates that evolves separately in rarely explored regions, in equal parts. The
    # regions are the other compute locations of inputs (before the loops that read them, around the
    # reduction, within it), and programs with unrolled code that skips inserted zeros, as in a transposed
    # convolution (benchmarks/results/constants).
    compute_location_share: float = 0.4
    # Number of better kept candidates that may differ from a kept candidate in a single decision.
    neighbours: int = 4
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("population", "keep", "neighbours"):
            if getattr(self, name) < 1:
                raise DraftRequestError(f"draft.{name}={getattr(self, name)}: must be at least 1")
        if self.generations < 0:
            raise DraftRequestError(f"draft.generations={self.generations}: must not be negative")
        for name in ("mutation_probability", "random_share", "vectorised_share", "compute_location_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise DraftRequestError(f"draft.{name}={getattr(self, name)}: must be in [0, 1]")


@dataclass(frozen=True, eq=False)
class Draft:
    """Candidate that was not replayed, rated by its decisions.

    A draft is not a `Candidate` yet: TVM may move its decisions during replay, or reject them.
    """

    trace: str
    """Canonical trace (JSON)."""
    score: float
    """Score of the draft model, uncorrected by measurements."""
    embedding: NDArray[np.float32]
    """Embedding float32 [EMBEDDING_DIM]; see `surrogate.embedding`."""
    cost_s: float = 1.0
    """Seconds to measure the candidate; see `measuring_cost_s`."""


def measuring_cost_s(nest: Nest) -> NDArray[np.floating]:
    """Seconds [n] to measure candidates, estimated from the stores that they may unroll."""
    return FIXED_S + STORE_S * nest.unroll_step()
