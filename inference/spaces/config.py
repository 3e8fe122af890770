"""Settings of design spaces: `space` and `sub_space` of conf group `search`."""

from __future__ import annotations

from dataclasses import dataclass

from ..search.settings_checks import OneShotConfigError

STOCK = "stock"
"""Default of `search.space`."""

FEWEST, MOST = 5, 8
"""Range of Fasor's n_p (section 5)."""


@dataclass(frozen=True)
class SubSpaceConfig:
    """Settings of `space=sub_space`; conf/search/default.yaml documents each field."""

    primitives: int = 7
    weights: str | None = None

    def __post_init__(self) -> None:
        if not FEWEST <= self.primitives <= MOST:
            raise OneShotConfigError(
                f"search.sub_space.primitives={self.primitives}: choose {FEWEST} to {MOST} of Table 1's eight"
            )
