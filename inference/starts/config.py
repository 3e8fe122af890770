"""Settings of start sources: `starts` and `pretuned` of conf group `search`."""

from __future__ import annotations

from dataclasses import dataclass

from ..search.settings_checks import OneShotConfigError

KNOWN = "known"
"""Default of `search.starts`; `search.registry.STARTS` has all values."""


@dataclass(frozen=True)
class PretunedConfig:
    """Settings of `starts=pretuned`; conf/search/default.yaml documents each field."""

    file: str | None = None
    similarity: float = 0.6
    programs: int = 4

    def __post_init__(self) -> None:
        if not -1 <= self.similarity <= 1:
            raise OneShotConfigError(
                f"search.pretuned.similarity={self.similarity}: a rank correlation is in [-1, 1]"
            )
        if self.programs < 1:
            raise OneShotConfigError(f"search.pretuned.programs={self.programs}: must be at least 1")
