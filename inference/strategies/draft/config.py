"""Settings of the draft-then-verify strategy."""

from __future__ import annotations

from dataclasses import dataclass

from ...search.settings_checks import at_least, shares
from ..base import StrategyConfig

AUTO = "auto"
"""Checkpoint name that stands for the shipped draft checkpoint that fits the target."""


@dataclass(frozen=True)
class DraftingConfig(StrategyConfig):
    """Draft-then-verify search; conf/search/strategy/draft.yaml says what each field means."""

    name: str = "draft"
    checkpoint: str | None = AUTO
    population: int = 1024
    generations: int = 6
    keep: int = 256
    refine_population: int = 256
    refine_generations: int = 3
    refine_keep: int = 64
    vectorised_share: float = 0.5
    compute_location_share: float = 0.4
    lcb_coefficient: float = 1.0

    def __post_init__(self) -> None:
        at_least(self, population=1, generations=0, keep=1, lcb_coefficient=0)
        at_least(self, refine_population=1, refine_generations=0, refine_keep=1)
        shares(self, "vectorised_share", "compute_location_share")
