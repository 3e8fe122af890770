"""Settings of reuse between the tasks of a run: `reuse`, `auto` and `eto` of conf group `search`."""

from __future__ import annotations

from dataclasses import dataclass, fields

from ...configuration import check_least
from ..search.settings_checks import OneShotConfigError

OFF, AUTO = "off", "auto"
"""Values of `search.reuse` for no reuse and for the default reuse; see `search.registry.REUSES`."""

NO_BRIDGES, ONE_HOP, ALL_BRIDGES = BRIDGES = ("none", "one_hop", "all")
"""Values of `search.eto.bridges`: the three variants in ETO's Figure 11."""


@dataclass(frozen=True)
class AutoConfig:
    """Settings of `reuse=auto`; conf/search/default.yaml documents each field."""

    source_rounds: int = 4
    programs: int = 8
    small_programs: int = 4
    resized_programs: int = 2
    starts: int | None = None
    depthwise_rounds: int = 1
    templates_alone: bool = True
    least_gain: float = 0.0
    templates_first: bool = False
    heavy_share: float = 0.1
    own_share: float = 2.0

    def __post_init__(self) -> None:
        if not 0 < self.heavy_share <= 1:
            raise OneShotConfigError(
                f"search.auto.heavy_share={self.heavy_share}: must be over 0 and at most 1, which no task has"
            )
        if not self.own_share >= 0:
            raise OneShotConfigError(
                f"search.auto.own_share={self.own_share}: must be at least 0, which sets no limit; try 2"
            )
        if not 0 <= self.least_gain < 1:
            raise OneShotConfigError(
                f"search.auto.least_gain={self.least_gain}: a share of the network's latency in [0, 1); use "
                "0 to measure all templates, or 0.0002"
            )
        counts = [field.name for field in fields(self) if field.type in ("int", "int | None")]
        least = {name: 0 if name == "starts" else 1 for name in counts}
        check_least(self, least, OneShotConfigError, prefix="search.auto.")


@dataclass(frozen=True)
class EtoConfig:
    """Settings of ETO and its baselines: `reuse` is paper, top_k or selective."""

    trials: int = 64
    bridges: str = ONE_HOP
    samples: int = 10
    top_k: int = 3

    def __post_init__(self) -> None:
        check_least(self, {"trials": 1, "samples": 1, "top_k": 1}, OneShotConfigError, prefix="search.eto.")
        if self.bridges not in BRIDGES:
            raise OneShotConfigError(f"search.eto.bridges={self.bridges}: use one of {', '.join(BRIDGES)}")
