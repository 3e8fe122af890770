"""Task of a program sampler, and the settings for drawing its candidates."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field

from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from ....compiler.task import Task
from .known_candidates import KnownCandidates


@dataclass(frozen=True, eq=False)
class SamplerSetting:
    """Task, target and all other inputs that every program sampler shares."""

    task: Task
    target: Target
    _: KW_ONLY
    per_round: int
    """Candidates that a round proposes."""
    seed: int
    space: ms.SpaceGenerator | str = "post-order-apply"
    """Design space; see `make_tune_context`."""
    scorer: ms.CostModel | None = None
    """Cost model that guides an exploring sampler; None for a sampler without one."""
    random_share: float = 0.2
    """Share of a round that an exploring sampler draws at random instead of by score."""
    threads: int | None = None
    """Threads that replay candidates; None uses one per core. With a single thread, a seed fixes them."""
    known: KnownCandidates = field(default_factory=KnownCandidates)
    """Candidates of the task that are not proposed again."""
