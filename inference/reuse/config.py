"""Settings of reuse between the tasks of a run: `reuse`, `child` and `eto` of conf group `search`."""

from __future__ import annotations

from dataclasses import dataclass

from ..strategies.checks import OneShotConfigError

OFF, AUTO, PAPER, TOP_K, SELECTIVE = REUSES = ("off", "auto", "paper", "top_k", "selective")
"""Values of `search.reuse`; conf/search/default.yaml says what each does."""

NO_BRIDGES, ONE_HOP, ALL_BRIDGES = BRIDGES = ("none", "one_hop", "all")
"""Values of `search.eto.bridges`: the three variants of ETO's Figure 11."""


@dataclass(frozen=True)
class ChildConfig:
    """Search of a task that reuses programs, with `reuse` auto."""

    programs: int = 8
    starts: int = 4
    depthwise_rounds: int = 2

    def __post_init__(self) -> None:
        for name, least in (("programs", 1), ("starts", 0), ("depthwise_rounds", 1)):
            if (value := getattr(self, name)) < least:
                raise OneShotConfigError(f"search.child.{name}={value}: must be at least {least}")
        if self.starts > self.programs:
            raise OneShotConfigError(
                f"search.child.starts={self.starts}: they are among those measured; use at most "
                f"search.child.programs={self.programs}"
            )


@dataclass(frozen=True)
class EtoConfig:
    """ETO and its baselines, with `reuse` paper, top_k or selective."""

    trials: int = 64
    bridges: str = ONE_HOP
    samples: int = 10
    top_k: int = 3

    def __post_init__(self) -> None:
        for name in ("trials", "samples", "top_k"):
            if (value := getattr(self, name)) < 1:
                raise OneShotConfigError(f"search.eto.{name}={value}: must be at least 1")
        if self.bridges not in BRIDGES:
            raise OneShotConfigError(f"search.eto.bridges={self.bridges}: use one of {', '.join(BRIDGES)}")
