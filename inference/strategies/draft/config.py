"""Settings of the draft-then-verify strategy."""

from __future__ import annotations

from dataclasses import dataclass

from ....dataset.sampling.programs.strategy_config import StrategyConfig
from ....models.checkpoints.shipped import AUTO
from .drafts import DraftRequest


@dataclass(frozen=True)
class DraftingConfig(StrategyConfig):
    """Draft-then-verify search; conf/search/strategy/draft.yaml describes the fields."""

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
        self.check_at_least({"population": 1, "generations": 0, "keep": 1, "lcb_coefficient": 0})
        self.check_at_least({"refine_population": 1, "refine_generations": 0, "refine_keep": 1})
        self.check_shares("vectorised_share", "compute_location_share")

    def first_draft(self) -> DraftRequest:
        """Request of the first round."""
        return DraftRequest(
            population=self.population,
            generations=self.generations,
            keep=self.keep,
            vectorised_share=self.vectorised_share,
            compute_location_share=self.compute_location_share,
        )

    def refining_draft(self) -> DraftRequest:
        """Request of a later round, which drafts candidates near the fastest measured ones."""
        return DraftRequest(
            population=self.refine_population,
            generations=self.refine_generations,
            keep=self.refine_keep,
            vectorised_share=0.0,
            compute_location_share=0.0,
        )
