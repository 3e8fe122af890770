"""Drafts: candidates that were rated by their decisions and not replayed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ....compiler.structure.nest import Nest
from ....errors import UserError

STORE_S = 1.1e-3
"""Seconds that LLVM takes for each store that a program may unroll: mean of seven tasks on an AMD Zen 3."""

FIXED_S = 0.5
"""Seconds of replaying, building and timing besides; only ratios of costs count."""


class DraftRequestError(UserError, ValueError):
    """A value of a draft request is out of range."""


@dataclass(frozen=True)
class DraftRequest:
    """Size of one draft, the number of candidates that it keeps, and its seed.

    Each generation rates `population` new candidates: children of the best so far by mutation or crossover,
    and some drawn at random. `DraftingConfig` has the settings of a search, which drafts once a round.
    """

    population: int
    generations: int
    # Candidates handed on.
    keep: int
    # Share of the children that is mutated; the others cross two parents.
    mutation_probability: float = 0.7
    # Share drawn at random of each generation and of the kept: insurance against a wrong model.
    random_share: float = 0.05
    # Share of a CPU's candidates that evolves apart, among programs whose innermost loop MetaSchedule
    # vectorises. LLVM vectorises others, too, on which a single evolution converges where a model prefers
    # them. The former compile faster and run as fast or faster (benchmarks/results/constants).
    vectorised_share: float = 0.5
    # Share of a CPU's candidates that evolves apart where most others do not look, in even parts: the other
    # compute locations of inputs (before the loops that read them, around the reduction, within it), and
    # programs whose unrolled code skips inserted zeros, as of a transposed convolution
    # (benchmarks/results/constants).
    compute_location_share: float = 0.4
    # Better kept candidates that may differ from one in a single decision.
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
    """A candidate that was not replayed, rated by its decisions.

    It is no `Candidate` yet: TVM may move its decisions when they are replayed, or reject them.
    """

    trace: str
    """Its canonical trace (JSON)."""
    score: float
    """Score of the draft model, uncorrected by measurements."""
    embedding: NDArray[np.float32]
    """Embedding float32 [EMBEDDING_DIM]; see `surrogate.embedding`."""
    cost_s: float = 1.0
    """Seconds that measuring it takes; see `measuring_cost_s`."""


def measuring_cost_s(nest: Nest) -> NDArray[np.floating]:
    """Seconds [n] that measuring candidates takes, by the stores that they may unroll."""
    return FIXED_S + STORE_S * nest.unroll_step()
