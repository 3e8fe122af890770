"""Settings of a search: conf group `search`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tvm.target import Target

from ...compiler.networks import Lowering
from ...compiler.networks.lowering.lowering import OFF as NO_ALTERNATIVE
from ...configuration import check_least
from ..families.registry import check_grouping
from ..planners.registry import planner_config
from ..reuse.config import AUTO, OFF, AutoConfig, EtoConfig
from ..spaces.config import STOCK, SubSpaceConfig
from ..starts.config import KNOWN, PretunedConfig
from ..strategies.base import Strategy
from ..strategies.registry import fitted_strategy, strategy_class, strategy_config
from .registry import REUSES, SPACES, STARTS
from .selection import StopConfig
from .settings_checks import OneShotConfigError

__all__ = ["OneShotConfig", "OneShotConfigError", "StopConfig"]

OVERLAPS = ("all", "building", "none")

_LEAST: dict[str, float] = {
    "top_k": 1,
    "rounds": 1,
    "replay_factor": 1,
    "max_code": 1,
    "extra_rounds": 0,
    "finalists": 0,
    "processes": 0,
    "templates": 0,
    "template_margin": 0,
    "min_latency_share": 0,
    "seed": 0,
}

_NESTED: dict[str, Any] = {
    "stop": StopConfig,
    "auto": AutoConfig,
    "eto": EtoConfig,
    "pretuned": PretunedConfig,
    "sub_space": SubSpaceConfig,
}


@dataclass(frozen=True)
class OneShotConfig:
    """Search of tasks and measurement of its proposals; conf/search/default.yaml describes the fields.

    One-Shot Tuner measures 64 candidates after one search (section 4.2, Table 2). By default a search has
    several rounds. Each round starts from the fastest programs measured so far. `rounds=1` is the paper's
    setting.

    `strategy` is the name of a strategy, a mapping with `name` and its settings, or its `Config`. The same
    holds for `planner`.
    """

    strategy: Any = "draft"
    rounds: int = 6
    min_latency_share: float = 0.5
    random_share: float = 0.05
    top_k: int = 48
    replay_factor: int = 2
    finalists: int = 3
    max_code: int | None = 6000
    templates: int = 4
    template_margin: float | None = None
    tile_profile: bool = True
    propose: bool = True
    extra_rounds: int = 0
    surrogate: bool = True
    share_surrogate: bool = False
    families: str = "core_operator"
    planner: Any = "shares"
    stop: StopConfig = field(default_factory=StopConfig)
    processes: int | None = None
    overlap: str = "building"
    seed: int = 0
    measure: bool = True
    reuse: str = AUTO
    auto: AutoConfig = field(default_factory=AutoConfig)
    eto: EtoConfig = field(default_factory=EtoConfig)
    starts: str = KNOWN
    pretuned: PretunedConfig = field(default_factory=PretunedConfig)
    space: str = STOCK
    sub_space: SubSpaceConfig = field(default_factory=SubSpaceConfig)

    def __post_init__(self) -> None:
        object.__setattr__(self, "strategy", strategy_config(self.strategy))
        object.__setattr__(self, "planner", planner_config(self.planner))
        check_grouping(self.families)
        if self.overlap not in OVERLAPS:
            raise OneShotConfigError(f"search.overlap={self.overlap}: use one of {', '.join(OVERLAPS)}")
        REUSES.check(self.reuse)
        STARTS.check(self.starts)
        if SPACES.find(self.space).needs_narrowing and not self.strategy_class.narrows_space:
            raise OneShotConfigError(
                f"search.space={self.space}: search/strategy={self.strategy.name} draws from all decisions "
                f"of MetaSchedule; use search/strategy=draft or dqn, or search.space={STOCK}"
            )
        if self.reuse not in (OFF, AUTO) and not self.measure:
            raise OneShotConfigError(
                f"search.reuse={self.reuse}: search.measure=false leaves no measured program to reuse; use "
                "search.reuse=off"
            )
        check_least(self, _LEAST, OneShotConfigError, prefix="search.")
        if self.rounds > self.top_k:
            raise OneShotConfigError(
                f"search.rounds={self.rounds}: each measures a candidate at least; use at most "
                f"search.top_k={self.top_k}"
            )
        if not self.measure and (self.rounds, self.extra_rounds) != (1, 0):
            raise OneShotConfigError(
                "search.measure=false: a round without measurements teaches nothing, so that there is one; "
                "use search=no_measurement, or search.rounds=1 search.extra_rounds=0 instead of "
                f"{self.rounds} and {self.extra_rounds}"
            )
        if not self.propose and (self.rounds, self.reuse_in_use, self.measure) != (1, OFF, True):
            raise OneShotConfigError(
                "search.propose=false: a task has its starts alone, which one round measures; use "
                "search=templates, or search.rounds=1 search.reuse=off search.measure=true"
            )
        if not 0 <= self.random_share <= 1:
            raise OneShotConfigError(f"search.random_share={self.random_share}: must be in [0, 1]")

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> OneShotConfig:
        """Inverse of `dataclasses.asdict`."""
        nested = {name: kind(**values[name]) for name, kind in _NESTED.items()}
        return cls(**{**values, **nested})

    def fitted(self, target: Target) -> OneShotConfig:
        """The settings with a strategy that can serve the target; see `Strategy.fitted`.

        Raises the errors of `DesignSpace.check` for a design space that the target does not support.
        """
        SPACES.find(self.space).check(self, target)
        return replace(self, strategy=fitted_strategy(self.strategy, target))

    @property
    def strategy_class(self) -> type[Strategy]:
        """Class of the strategy, which defines its capabilities."""
        return strategy_class(self.strategy.name)

    def for_reuse(self) -> OneShotConfig:
        """The settings of a search with `reuse`: unchanged unless `reuse` selects a published search."""
        found: OneShotConfig = REUSES.find(self.reuse).settings(self)
        return found

    @property
    def reuse_in_use(self) -> str:
        """`reuse`, or OFF if it is AUTO and does not apply.

        AUTO does not apply if nothing is measured or searched for, or if the strategy does not reuse
        programs.
        """
        applies = self.measure and self.propose and self.strategy_class.reuses
        return OFF if self.reuse == AUTO and not applies else self.reuse

    def applied_to(self, lowering: Lowering) -> Lowering:
        """The lowering with `winograd` and `attention` off instead of auto if a search has no templates."""
        if self.templates:
            return lowering
        winograd = lowering.winograd if lowering.demands_winograd else NO_ALTERNATIVE
        return replace(lowering, winograd=winograd, attention=NO_ALTERNATIVE)

    @property
    def per_round(self) -> int:
        """Maximum number of candidates that a round measures."""
        return -(-self.top_k // self.rounds)

    def room(self, full_rounds: int) -> int:
        """Candidates that the round after `full_rounds` may measure. Rounds after `rounds` are extra."""
        if full_rounds >= self.rounds:
            return self.per_round
        measured, then = (-(-self.top_k * rounds // self.rounds) for rounds in (full_rounds, full_rounds + 1))
        return then - measured

    @property
    def proposed(self) -> int:
        """Number of candidates that a round proposes. The candidates to measure are selected from them."""
        return self.per_round * self.replay_factor
