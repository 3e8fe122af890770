"""Random sampling, the baseline of exploration-based sampling."""

from __future__ import annotations

from .sampler import LivePrograms, ProgramSampler


class RandomSampler(ProgramSampler):
    """Sampler that draws every decision at random (One-Shot Tuner section 6.3.2, "Random")."""

    name = "random"

    def _draw(self) -> LivePrograms:
        return self._draw_random_new(self.per_round)
