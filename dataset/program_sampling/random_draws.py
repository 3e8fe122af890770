"""Random programs: the baseline that exploration-based sampling is compared with."""

from __future__ import annotations

from collections.abc import Iterable

from .sampler import ProgramSampler, Proposal


class RandomSampler(ProgramSampler):
    """Draws each decision of a design space at random (One-Shot Tuner section 6.3.1, "Random")."""

    name = "random"

    def _draw(self) -> Iterable[Proposal]:
        return self._draw_random_new(self.per_round).items()
