"""Interface of search strategies, and the settings that create one."""

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
    """Input of a strategy: a sampler's setting and the parts that the search adds."""

    space: ms.SpaceGenerator
    """Design space; see `spaces.base.DesignSpace`."""
    scorer: ms.CostModel
    """Cost model that rates replayed candidates. If the search learns, measurements correct its scores."""
    random_share: float
    """Share of a round's candidates that is drawn at random."""
    surrogate: Surrogate | None
    """Surrogate for candidates that the strategy rates with its own model; None disables learning."""
    resources: Any = None
    """Return value of the strategy's `load`."""
    clock: StageClock = field(default_factory=StageClock)
    narrow: Narrow | None = None
    """`DesignSpace.narrowed` of the design space; None keeps all decisions."""


class Strategy(ABC):
    """Search of one task, round by round: proposes candidates and learns from their latencies.

    To add a strategy that `search/strategy=<name>` selects, write a class and its `Config` in a separate
    module, add one line to `registry.STRATEGIES`, and add the file conf/search/strategy/<name>.yaml.
    """

    Config: ClassVar[type[StrategyConfig]]
    """Class of the settings."""
    reuses: ClassVar[bool] = True
    """Whether `search.reuse=auto` passes programs of other tasks to the strategy."""
    narrows_space: ClassVar[bool] = False
    """Whether the strategy draws from `DesignSpace.narrowed` instead of all decisions of MetaSchedule."""
    draws_from_pool: ClassVar[bool] = False
    """Whether all candidates are programs of a measured pool, as `executor=replay` requires."""
    needs_parent_program: ClassVar[bool] = False
    """Whether the search of a task that has a parent starts from the parent's program."""
    takes_draft_model: ClassVar[bool] = False
    """Whether the resources of the strategy are a draft model, which depends on the device."""

    @classmethod
    def measures_steps(cls, config: Any) -> bool:
        """Whether each round is a step that depends on the measurements of the previous step."""
        return False

    @classmethod
    def checkpoints(cls, config: Any) -> tuple[str, ...]:
        """Checkpoints that the strategy uses in addition to the cost model."""
        return ()

    @classmethod
    def fitted(cls, config: Any, target: Target) -> StrategyConfig:
        """The settings for a target; settings of another strategy if this one cannot serve the target."""
        found: StrategyConfig = config
        return found

    @classmethod
    def load(cls, config: Any, hardware: Hardware) -> Any:
        """Loads the models that all tasks of a process share. They become `StrategySetting.resources`."""
        return None

    @classmethod
    @abstractmethod
    def make(cls, config: Any, setting: StrategySetting) -> Strategy:
        """Creates the search of one task. Raises NoDesignSpaceError if there is nothing to tune."""

    @property
    @abstractmethod
    def context(self) -> ms.TuneContext:
        """Tune context of the task, used to replay its candidates."""

    @property
    def counts(self) -> CandidateCounts | None:
        """Numbers of candidates so far by outcome; None if the strategy does not count them."""
        return None

    @abstractmethod
    def take_starts(self, starts: Sequence[str]) -> list[LiveProgram]:
        """Returns new start candidates (traces) that replay on the task. The search goes on from them."""

    def take_parents(self, parents: Sequence[ReuseParent]) -> None:  # noqa: B027  # most reuse none
        """Stores programs of other tasks that the next proposals may reuse, the most promising first."""

    @abstractmethod
    def propose(self, budget: RoundBudget) -> list[LiveProgram]:
        """Live programs of the next round, none of them in `setting.known`. Empty if no candidate is left."""

    @abstractmethod
    def mark_measured(self, traces: Iterable[str]) -> None:
        """Marks candidates as already measured, so that they are not proposed."""

    @abstractmethod
    def learn(self, measured: Sequence[LiveProgram], latencies_s: Mapping[str, float]) -> None:
        """Learns from measured programs and their latencies in seconds by trace, inf for a failure."""
