"""Fasor's exploration: a deep Q-network walks from pretuned schedules without replays or measurements."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from tvm.target import Target

from ...compiler.host.threads import linear_algebra_threads
from ...compiler.replay import RejectedError, candidate_trace_json, replay_or_reject
from ...compiler.structure.domains import DomainError
from ...compiler.structure.read_spaces import read_spaces
from ...compiler.structure.space import Choices
from ...compiler.tvm_compat import NoDesignSpaceError
from ...dataset.features.reading import task_reading
from ...dataset.hardware import Hardware
from ...dataset.measure import MeasureOutcome
from ...dataset.sampling.programs import EvolutionaryConfig, LiveProgram, LivePrograms
from ...dataset.sampling.programs.counts import DUPLICATE, CandidateCounts
from ...models.architectures.explorer import Explorer
from ...models.checkpoints.checkpoint import load_explorer
from ...models.checkpoints.shipped import AUTO, CheckpointUse, shipped_checkpoint
from ...training.exploration.environment import Environment, TaskSpace
from ...training.exploration.walks import Visited, explore
from ..strategies.base import Strategy, StrategyConfig, StrategySetting
from ..strategies.sampled import DescendingSampler, DescendingStrategy, EvolutionaryStrategy
from .explorer_config import ExplorationConfig

_LOG = logging.getLogger(__name__)


class ExplorationStrategy(DescendingStrategy):
    """Walks of an explorer; the strategy replays their best programs, and the cost model rates them."""

    Config = ExplorationConfig
    narrows_space = True

    @classmethod
    def checkpoints(cls, config: Any) -> tuple[str, ...]:
        """See Strategy: the explorer, and the model that judges its programs."""
        return config.checkpoint, config.environment

    @classmethod
    def fitted(cls, config: Any, target: Target) -> StrategyConfig:
        """The settings with a named checkpoint; with a warning, evolution if no checkpoint fits the target.

        Raises the errors of `load_explorer` and `Environment.load` for checkpoints that the user named.
        """
        name = config.checkpoint
        if name == AUTO:
            name = shipped_checkpoint(CheckpointUse.EXPLORER, target.kind.name)
        if name is None:
            _LOG.warning(
                "no explorer for %s targets comes with foretune: searching with search/strategy=evolutionary "
                "instead of dqn; foretune reinforce makes one for search.strategy.checkpoint",
                target.kind.name,
            )
            return EvolutionaryConfig()
        load_explorer(name)  # reports bad checkpoints before the search
        Environment.load(config.environment)
        found: StrategyConfig = replace(config, checkpoint=name)
        return found

    @classmethod
    def load(cls, config: Any, hardware: Hardware) -> ExplorerResources:
        """The explorer and its environment; raises the errors of `load_explorer` and `Environment.load`."""
        explorer, _ = load_explorer(config.checkpoint)
        environment, _ = Environment.load(config.environment)
        return ExplorerResources(explorer, environment, hardware)

    @classmethod
    def make(cls, config: Any, setting: StrategySetting) -> Strategy:
        """See Strategy; evolution searches a task whose decisions no move changes."""
        if setting.resources is None:
            raise ValueError("search.strategy=dqn: needs an explorer; see ExplorationStrategy.load")
        try:
            sampler = ExplorationSampler(setting, config)
        except UnexplorableError as error:
            _LOG.info("%s cannot be explored (%s): it is searched by evolution", setting.task.name, error)
            return EvolutionaryStrategy.make(EvolutionaryConfig(), setting)
        return cls(sampler, setting)


_PARENTS = 8
"""Maximum number of programs from which a round walks: the fastest measured, then the start candidates."""


class UnexplorableError(Exception):
    """The task has no sketch that the moves of an explorer change."""


@dataclass(frozen=True)
class ExplorerResources:
    """Resources shared by all tasks of a process: the explorer, the judging environment, and the device."""

    explorer: Explorer
    environment: Environment
    hardware: Hardware


class ExplorationSampler(DescendingSampler):
    """Walks with an explorer in each sketch of a task, and proposes the programs with the best ratings.

    Sketches have equal shares of the candidates. Walks begin with the fastest measured programs and the start
    candidates of their sketch, or with random programs if the sketch has neither. In a narrowed design space,
    moves lead to values of that space: a start from outside keeps its values of untuned decisions.
    """

    name = "dqn"

    def __init__(self, setting: StrategySetting, config: ExplorationConfig) -> None:
        """`setting.resources` must be ExplorerResources.

        Raises UnexplorableError, and NoDesignSpaceError as ProgramSampler does.
        """
        super().__init__(setting)
        resources: ExplorerResources = setting.resources
        self._resources = resources
        self._config = config
        self._clock = setting.clock
        self._starts: list[str] = []
        self._latencies_s: dict[str, float] = {}
        self._judged: set[str] = set()
        try:
            reading = task_reading(self.context.mod)
            found = read_spaces(self.context, reading.structure, setting.task.name)
            vector = reading.features
        except NoDesignSpaceError:
            raise
        except Exception as error:  # TVM raises ScheduleError, InternalError and others
            raise UnexplorableError(f"{type(error).__name__}: {error}") from error
        whole = {id(one.sketch): one for one in found}
        narrowed = found if setting.narrow is None else setting.narrow(found)
        self._is_narrowed = narrowed is not found
        spaces = [
            TaskSpace(
                whole[id(one.sketch)],
                reading.structure,
                vector,
                resources.hardware,
                one if self._is_narrowed else None,
            )
            for one in narrowed
        ]
        self._spaces = [one for one in spaces if one.moves.legal(one.draw(1, self.rng)).any()]
        if not self._spaces:
            raise UnexplorableError("no sketch has a decision that a move changes")

    @property
    def counts(self) -> CandidateCounts:
        """See ProgramSampler; programs that the environment judged count as drafted."""
        return replace(super().counts, drafted=len(self._judged))

    def descend_from(self, traces: Iterable[str]) -> None:
        """See DescendingSampler."""
        self._starts += traces

    def learn(self, measured: Sequence[LiveProgram], outcomes: Sequence[MeasureOutcome]) -> None:
        """Stores the latencies; later walks begin with the fastest programs."""
        pairs = zip(measured, outcomes, strict=True)
        self._latencies_s |= {trace: outcome.latency_s for (trace, _), outcome in pairs}

    def propose_quickly(self, count: int) -> list[LiveProgram]:
        """See DescendingSampler; the candidates come from one iteration."""
        return self._handed_on(self._round(count, iterations=1))

    def _draw(self) -> LivePrograms:
        return self._round(self.per_round, self._config.iterations)

    def _draw_random(self) -> LiveProgram | None:
        """See ProgramSampler. MetaSchedule would also draw decisions that the narrowed space leaves out."""
        if not self._is_narrowed:
            return super()._draw_random()
        space = self._spaces[self.rng.integers(len(self._spaces))]
        return self._replay(space.space.traces(space.draw(1, self.rng))[0])

    def _round(self, count: int, iterations: int) -> LivePrograms:
        """Up to `count` new candidates: the best-rated programs, then random ones."""
        with self._clock.stage("drafting"), linear_algebra_threads(1):
            traces = self._walked(iterations)
        wanted = count - round(self._random_share * count)
        found: LivePrograms = {}
        for trace in traces:
            if len(found) >= wanted:
                break
            if self.rows is not None and not self.rows.allows(trace):
                continue
            self._tried += 1
            try:
                candidate = replay_or_reject(self.context, trace)
            except RejectedError as error:
                self.rejected[str(error)] += 1
                continue
            made = candidate_trace_json(candidate)  # TVM corrects decisions that it does not allow
            if made in self.known or made in found:
                self.passed_over[DUPLICATE] += 1
            else:
                found[made] = candidate
        return self._draw_random_new(count - len(found), found) | found

    def _walked(self, iterations: int) -> list[str]:
        """Traces of the programs of a round, the best in the environment's judgement first."""
        share = -(-self._config.candidates // len(self._spaces))
        parents = self._parents()
        times: dict[str, float] = {}
        for space in self._spaces:
            visited = self._converged(space, self._started(space, parents), share, iterations)
            times |= dict(zip(space.space.traces(visited.choices), visited.time.tolist(), strict=True))
        self._judged.update(times)
        return [trace for trace in sorted(times, key=lambda trace: times[trace]) if trace not in self.known]

    def _converged(self, space: TaskSpace, starts: Choices, count: int, iterations: int) -> Visited:
        """Programs of iterations that walk on from the best; `patience` of them may find no better one."""
        config, resources = self._config, self._resources
        visited = Visited(starts[:0], np.zeros(0))
        best, without = np.inf, 0
        for _ in range(iterations):
            visited = explore(
                resources.environment,
                space,
                resources.explorer,
                starts,
                count=count,
                walks=config.walks,
                mode=config.mode,
                epsilon=config.epsilon,
                rng=self.rng,
                before=visited,
            )
            without = 0 if visited.time.min() < best else without + 1
            best = visited.time.min()
            if without >= config.patience:
                break
        return visited

    def _parents(self) -> list[str]:
        ran = {trace: s for trace, s in self._latencies_s.items() if np.isfinite(s)}
        fastest = sorted(ran, key=lambda trace: ran[trace])
        return list(dict.fromkeys([*fastest, *self._starts]))[:_PARENTS]

    def _started(self, space: TaskSpace, parents: Sequence[str]) -> Choices:
        """Parents with this sketch, or random programs without such parents."""
        rows = []
        for trace in parents:
            if (values := space.space.sketch.values_in(trace)) is not None:
                try:
                    rows.append(space.space.choices(np.array([values], dtype=np.int64)))
                except DomainError:  # a location that is not in this space
                    continue
        if rows:
            return space.space.canonical(np.concatenate(rows))
        share = -(-self._config.draws // len(self._spaces))
        return space.draw(max(share, 1), self.rng)
