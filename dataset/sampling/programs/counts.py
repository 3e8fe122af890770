"""Counts of the candidates that a search considers, by their outcome."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

DUPLICATE = "duplicate"
"""Cause for a valid program that was already known."""

LOWER_SCORE = "lower score"
"""Cause for a valid program that evolution or annealing rated and did not propose."""


@dataclass(frozen=True)
class CandidateCounts:
    """Candidates of one task or of several.

    A tried candidate is replayed into a program, and then proposed or rejected: `tried == proposed +
    sum(rejected.values())`. A difference of two counts may be negative: a later round may propose a candidate
    that an earlier one rejected for its lower score.
    """

    drafted: int = 0
    """Different candidates that a draft model rated by their decisions; only a few of them are tried."""
    tried: int = 0
    proposed: int = 0
    """Valid programs without duplicates that a search submits for measurement."""
    rejected: Mapping[str, int] = field(default_factory=dict)
    """Number by cause: "trace does not apply", the name of a postprocessor, DUPLICATE, LOWER_SCORE."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "rejected", {cause: n for cause, n in self.rejected.items() if n})

    def __add__(self, other: CandidateCounts) -> CandidateCounts:
        return self._plus(other, 1)

    def __sub__(self, other: CandidateCounts) -> CandidateCounts:
        return self._plus(other, -1)

    def _plus(self, other: CandidateCounts, sign: int) -> CandidateCounts:
        causes = {**self.rejected, **other.rejected}
        summed = {
            cause: self.rejected.get(cause, 0) + sign * other.rejected.get(cause, 0) for cause in causes
        }
        return CandidateCounts(
            drafted=self.drafted + sign * other.drafted,
            tried=self.tried + sign * other.tried,
            proposed=self.proposed + sign * other.proposed,
            rejected=summed,
        )

    def renamed(self, cause: str, name: str) -> CandidateCounts:
        """The same counts with another name for a cause."""
        return replace(self, rejected={name if c == cause else c: n for c, n in self.rejected.items()})
