"""Interface of search strategies, and the setting that one is made from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from ...compiler.structure.space import SketchSpace
from ...dataset.hardware import Hardware
from ...dataset.sampling.programs import LiveProgram, SamplerSetting, StrategyConfig
from ...dataset.sampling.programs.counts import CandidateCounts
from ..reuse.parent import ReuseParent
from ..run.profiling import StageClock
from ..search.loop import RoundBudget
from ..surrogate.base import Surrogate

__all__ = ["Narrow", "Strategy", "StrategyConfig", "StrategySetting"]

Narrow: TypeAlias = Callable[[Sequence[SketchSpace]], Sequence[SketchSpace]]
"""Selects the sketch spaces that a strategy drafts from."""


@dataclass(frozen=True, eq=False, kw_only=True)
class StrategySetting(SamplerSetting):
    """Everything that a strategy is made from: a sampler's setting and the parts that the search adds."""

    space: ms.SpaceGenerator
    """Design space; see `spaces.base.DesignSpace`."""
    scorer: ms.CostModel
    """Cost model that rates replayed candidates, corrected by the measurements if the search learns."""
    random_share: float
    """Share of a round that is drawn at random."""
    surrogate: Surrogate | None
    """Surrogate for candidates that the strategy rates by a model of its own; None learns nothing."""
    resources: Any = None
    """Return value of the strategy's `load`."""
    clock: StageClock = field(default_factory=StageClock)
    narrow: Narrow | None = None
    """`DesignSpace.narrowed` of the design space; None leaves all decisions."""


class Strategy(ABC):
    """Search of one task, round by round: proposes candidates and hears their latencies.

    A class in a module of its own, its `Config`, one line in `registry.STRATEGIES` and one file
    conf/search/strategy/<name>.yaml make a strategy that `search/strategy=<name>` chooses.
    """

    Config: ClassVar[type[StrategyConfig]]
    """Class of its settings."""
    reuses: ClassVar[bool] = True
    """Whether `search.reuse=auto` gives it programs of other tasks."""
    narrows_space: ClassVar[bool] = False
    """Whether it draws from `DesignSpace.narrowed`, and not from all decisions of MetaSchedule."""
    draws_from_pool: ClassVar[bool] = False
    """Whether all of its candidates are programs of a measured pool, as `executor=replay` needs."""
    needs_parent_program: ClassVar[bool] = False
    """Whether it searches a task that has a parent from the parent's program."""
    takes_draft_model: ClassVar[bool] = False
    """Whether its resources are a draft model, which depends on the device."""

    @classmethod
    def measures_steps(cls, config: Any) -> bool:
        """Whether each round is a step that the measurements of the step before decide."""
        return False

    @classmethod
    def checkpoints(cls, config: Any) -> tuple[str, ...]:
        """Checkpoints that it searches with, in addition to the cost model."""
        return ()

    @classmethod
    def fitted(cls, config: Any, target: Target) -> StrategyConfig:
        """The settings for a target; another strategy's if this one cannot serve the target."""
        found: StrategyConfig = config
        return found

    @classmethod
    def load(cls, config: Any, hardware: Hardware) -> Any:
        """Models that all tasks of a process share; becomes `StrategySetting.resources`."""
        return None

    @classmethod
    @abstractmethod
    def make(cls, config: Any, setting: StrategySetting) -> Strategy:
        """The search of one task; raises NoDesignSpaceError if there is nothing to tune."""

    @property
    @abstractmethod
    def context(self) -> ms.TuneContext:
        """Tune context of the task, in which its candidates are replayed."""

    @property
    def counts(self) -> CandidateCounts | None:
        """Numbers of candidates so far by outcome; None if the strategy does not count them."""
        return None

    @abstractmethod
    def take_starts(self, starts: Sequence[str]) -> list[LiveProgram]:
        """Start candidates (traces) that replay on the task and are new; the search goes on from them."""

    def take_parents(self, parents: Sequence[ReuseParent]) -> None:  # noqa: B027  # most reuse none
        """Takes programs of other tasks that the next proposals may reuse, the most promising first."""

    @abstractmethod
    def propose(self, budget: RoundBudget) -> list[LiveProgram]:
        """Live programs of the next round, none of them in `setting.known`; empty if none is left."""

    @abstractmethod
    def mark_measured(self, traces: Iterable[str]) -> None:
        """Marks candidates as measured already, so that they are not proposed."""

    @abstractmethod
    def learn(self, measured: Sequence[LiveProgram], latencies_s: Mapping[str, float]) -> None:
        """Learns from measured programs and their latencies in seconds by trace, inf for a failure."""
