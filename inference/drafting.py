"""Drafting: an evolutionary search over decisions alone, whose best candidates are replayed and verified.

One-Shot Tuner searches with a frozen model (section 4.2) and lets 512 candidates evolve for up to 120 steps
(Table 2). A draft model needs no program, so as many fit into seconds here:

    drafter = Drafter(task, target, DraftModel.load("path/to/draft"))
    for trace, candidate in verified(context, drafter.draft(DraftConfig(keep=256))):
        ...  # rate the candidates with the store-level model, measure the best

"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from ..dataset.drafting.input_places import InputPlace, input_places
from ..dataset.drafting.limits import within
from ..dataset.drafting.nest import Nest
from ..dataset.drafting.read_spaces import limits_of, read_spaces
from ..dataset.drafting.read_structure import read_structure
from ..dataset.drafting.space import SketchSpace
from ..dataset.features.task import task_features
from ..dataset.replay import candidate_trace_json, replay
from ..dataset.task import Task
from ..dataset.tvm_compat import NoDesignSpaceError, make_tune_context
from ..errors import UserError
from .draft_model import DraftModel, Rater
from .draft_population import Allowed, Population, Rate

if TYPE_CHECKING:
    from .residual import ResidualModel


STORE_S = 1.1e-3
"""Seconds more that LLVM takes for each store that a program may unroll, in the mean of seven tasks on an AMD
Zen 3."""

ANY_S = 0.5
"""What replaying, building and timing take besides; only ratios of costs count."""

LEAST_LANES = 4
"""Lanes from which on an innermost loop counts as vectorised: float32 of the narrowest registers."""

_OTHER_PLACES = len(InputPlace) - 1
"""Input places that are not the one of most candidates."""


class DraftConfigError(UserError, ValueError):
    """A setting of drafting cannot be."""


class UnreadableSpaceError(Exception):
    """A task or design space that drafting cannot follow, as of a schedule rule that it does not know."""


@dataclass(frozen=True)
class DraftConfig:
    """How much to draft, and what to keep.

    Each generation rates `population` new candidates: children of the best so far by mutation or crossover,
    and some drawn at random.
    """

    population: int = 2048
    generations: int = 12
    # Candidates that are handed on, best first.
    keep: int = 256
    # Children that are mutated; the others cross two parents.
    mutation_probability: float = 0.7
    # New candidates drawn at random, and kept ones picked at random: insurance against a wrong model.
    random_share: float = 0.05
    # Share of a CPU's candidates that evolves apart, among programs alone whose innermost loop MetaSchedule
    # vectorises. LLVM finds vectors in others, too; where a model prefers these, a single evolution ends
    # there. The former are built in less time, and measure as well or better (benchmarks/search_settings.py).
    vectorised_share: float = 0.5
    # Share of a CPU's candidates that evolves apart where most others do not look: an input, such as a padded
    # image, is computed in full before the loops that read it, around the reduction, or within it. A search
    # ends at one of the three, and each may be the fastest one (benchmarks/input_places.py). The other two
    # get even parts, as do programs whose unrolled code leaves out what guards let add nothing, such as the
    # zeros of a transposed convolution, where there are such.
    elsewhere_share: float = 0.4
    # Better kept candidates that may differ from one in a single decision.
    neighbours: int = 4
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("population", "keep", "neighbours"):
            if getattr(self, name) < 1:
                raise DraftConfigError(f"draft.{name}={getattr(self, name)}: must be at least 1")
        if self.generations < 0:
            raise DraftConfigError(f"draft.generations={self.generations}: must not be negative")
        for name in ("mutation_probability", "random_share", "vectorised_share", "elsewhere_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise DraftConfigError(f"draft.{name}={getattr(self, name)}: must be in [0, 1]")


@dataclass(frozen=True, eq=False)
class Draft:
    """A candidate that was not replayed."""

    trace: str
    """Its canonical trace (JSON)."""
    score: float
    """What the draft model says of it, whatever was measured."""
    place: NDArray[np.float32]
    """Near those of candidates that are alike: its draft vector."""
    cost_s: float = 1.0
    """Seconds that measuring it takes, by what it may unroll; see `STORE_S`."""


class Drafter:
    """Drafts candidates of one task on one target; spaces and structure are read once.

    `candidates_rated` counts what the model has rated.
    """

    def __init__(
        self, task: Task, target: Target, model: DraftModel, context: ms.TuneContext | None = None
    ) -> None:
        """`context` is a tune context of the task and target, made where none is given.

        Raises NoDesignSpaceError where the task has nothing to tune, UnreadableSpaceError where it has but
        no sketch of it can be drafted.
        """
        context = context or make_tune_context(task.mod, target, seed=0, name=task.name)
        try:
            structure = read_structure(task.mod)
            self.spaces = read_spaces(context, structure, task.name)
        except NoDesignSpaceError:
            raise
        except Exception as error:  # TVM raises ScheduleError, InternalError and others
            raise UnreadableSpaceError(f"{type(error).__name__}: {error}") from error
        if not self.spaces:
            raise UnreadableSpaceError("no sketch draws a decision")
        vector = task_features(task.mod)
        limits = limits_of(target)
        self._allowed: Allowed | None = None if limits is None else partial(within, limits=limits)
        self._has_vectors = limits is None and any(space.sketch.max_vector for space in self.spaces)
        self._places_inputs = limits is None and any(space.sketch.producers for space in self.spaces)
        self._has_guards = limits is None and any(space.sketch.guards for space in self.spaces)
        self._raters = [model.rater(space.sketch, structure, vector) for space in self.spaces]
        self.candidates_rated = 0

    def draft(
        self,
        config: DraftConfig,
        parents: Sequence[str] = (),
        known: Sequence[str] = (),
        residual: ResidualModel | None = None,
    ) -> list[Draft]:
        """Up to `config.keep` different candidates.

        First those of all kinds, by descending score and then some at random, then those that evolved apart
        (`config.vectorised_share`, `config.elsewhere_share`), in the same order.

        `parents` are traces to start from, as those of the fastest programs measured; `known` are traces that
        are not to be drafted again. With a `residual`, fitted to drafts of this task, the search goes by what
        that makes of the scores. The same arguments give the same drafts.
        """
        rng = np.random.default_rng(config.seed)
        rates = self._raters if residual is None else self._corrected(residual)
        niches = _OTHER_PLACES * self._places_inputs + self._has_guards
        share = config.elsewhere_share / max(niches, 1)
        niche = _sized(config, round(share * config.population), round(share * config.keep))
        rest = niche and _sized(
            config, config.population - niches * niche.population, config.keep - niches * niche.keep
        )
        if niche is None or rest is None or not niches:
            return self.rated(self._mixed(config, rates, parents, set(known), rng))
        traces = self._mixed(rest, rates, parents, set(known), rng)
        for allowed in self._niches(traces):
            traces += self._evolved(niche, allowed, rates, parents, {*known, *traces}, rng)
        return self.rated(traces)

    def _niches(self, usual: Sequence[str]) -> list[Allowed]:
        """What evolves apart because most candidates, the usual ones, are not of it."""
        niches: list[Allowed] = []
        if self._places_inputs:
            most = Counter(self._input_places(usual)).most_common(1)
            others = sorted(set(InputPlace) - {place for place, _ in most})
            niches += [partial(_with_inputs_at, place=place) for place in others]
        if self._has_guards:
            niches.append(_with_known_guards)
        return [partial(_and_vectorised, allowed=niche) for niche in niches] if self._has_vectors else niches

    def _mixed(
        self,
        config: DraftConfig,
        rates: Sequence[Rate],
        parents: Sequence[str],
        known: set[str],
        rng: np.random.Generator,
    ) -> list[str]:
        """Candidates of all kinds, then vectorised ones that evolved apart."""
        share = config.vectorised_share if self._has_vectors else 0.0
        part = _sized(config, round(share * config.population), round(share * config.keep))
        apart = self._evolved(part, _vectorised, rates, parents, known, rng)
        spent = part.population if part and apart else 0
        rest = _sized(config, config.population - spent, config.keep - len(apart))
        return self._evolved(rest, self._allowed, rates, parents, {*known, *apart}, rng) + apart

    def _input_places(self, traces: Sequence[str]) -> list[int]:
        """The `InputPlace` of each of its own candidates."""
        found: dict[str, int] = {}
        for space, _, known, values in self._read(traces):
            places = input_places(Nest.of(space.sketch, values)).tolist()
            found.update(zip(known, places, strict=True))
        return [found[trace] for trace in traces]

    def _evolved(
        self,
        config: DraftConfig | None,
        allowed: Allowed | None,
        rates: Sequence[Rate],
        parents: Sequence[str],
        known: set[str],
        rng: np.random.Generator,
    ) -> list[str]:
        """What evolution finds among the allowed candidates; nothing without `config`."""
        if config is None:
            return []
        populations = [
            Population(space, rate, allowed) for space, rate in zip(self.spaces, rates, strict=True)
        ]
        for population in populations:
            population.add_traces(parents)
        share = _shares(populations, config.population)
        for population, count in zip(populations, share, strict=True):
            population.add(population.sample(count, rng))
        populations = [population for population in populations if len(population.scores)]
        if not populations:
            return []
        for _ in range(config.generations):
            best = _best_scores(populations, config.population // 4)
            share = _shares(populations, config.population, best)
            for population, count in zip(populations, share, strict=True):
                fresh = round(config.random_share * count)
                children = population.children(count - fresh, config.mutation_probability, rng)
                population.add(np.concatenate([children, population.sample(fresh, rng)]))
        self.candidates_rated += sum(len(population.scores) for population in populations)
        return _kept(populations, config, known, rng)

    def rated(self, traces: Sequence[str]) -> list[Draft]:
        """Candidates by their traces, in their order, without those of sketches that are not drafted."""
        found: dict[str, Draft] = {}
        for space, rater, known, values in self._read(traces):
            scores, places = rater.with_places(values)
            costs_s = (ANY_S + STORE_S * Nest.of(space.sketch, values).unroll_step()).tolist()
            for trace, *of in zip(known, scores.tolist(), places, costs_s, strict=True):
                found[trace] = Draft(trace, *of)
        return [found[trace] for trace in traces if trace in found]

    def _read(
        self, traces: Sequence[str]
    ) -> Iterator[tuple[SketchSpace, Rater, list[str], NDArray[np.int64]]]:
        """Yields each space with its rater, the traces that are its own, and their values [m, width]."""
        for space, rater in zip(self.spaces, self._raters, strict=True):
            read = [(trace, space.sketch.values_in(trace)) for trace in traces]
            known = {trace: values for trace, values in read if values is not None}
            if known:
                yield space, rater, list(known), np.array(list(known.values()), dtype=np.int64)

    def _corrected(self, residual: ResidualModel) -> list[Rate]:
        return [partial(_corrected, rater, residual) for rater in self._raters]


def _sized(config: DraftConfig, population: int, keep: int) -> DraftConfig | None:
    """The settings for so many candidates; None where that is nothing to do."""
    return replace(config, population=population, keep=keep) if population and keep else None


def _vectorised(nest: Nest) -> NDArray[np.bool_]:
    return nest.lanes(loops=1) >= LEAST_LANES


def _with_inputs_at(nest: Nest, place: InputPlace) -> NDArray[np.bool_]:
    return input_places(nest) == place


def _with_known_guards(nest: Nest) -> NDArray[np.bool_]:
    return nest.left_by_guards() < 1


def _and_vectorised(nest: Nest, allowed: Allowed) -> NDArray[np.bool_]:
    return allowed(nest) & _vectorised(nest)


def _corrected(rater: Rater, residual: ResidualModel, values: NDArray[np.int64]) -> NDArray[np.float64]:
    scores, places = rater.with_places(values)
    return residual.corrected(places, scores)


def verified(context: ms.TuneContext, drafts: Sequence[Draft]) -> Iterator[tuple[str, ms.MeasureCandidate]]:
    """Replays drafts and yields those that give a program, each different program once.

    The trace is read back from the program, because TVM may have moved a decision that it does not allow.
    """
    seen: set[str] = set()
    for draft in drafts:
        candidate = replay(context, draft.trace)
        if candidate is None:
            continue
        trace = candidate_trace_json(candidate)
        if trace not in seen:
            seen.add(trace)
            yield trace, candidate


def _shares(populations: Sequence[Population], total: int, best: Sequence[int] | None = None) -> list[int]:
    """How many candidates each sketch gets: half evenly, half by its part among the best."""
    even = total / len(populations)
    if best is None or not sum(best):
        return [max(round(even), 1) for _ in populations]
    return [max(round(0.5 * even + 0.5 * total * part / sum(best)), 1) for part in best]


def _best_scores(populations: Sequence[Population], count: int) -> list[int]:
    """How many of the `count` best candidates of all sketches each sketch has."""
    scores = np.concatenate([population.scores for population in populations])
    owner = np.repeat(np.arange(len(populations)), [len(p.scores) for p in populations])
    best = np.argsort(-scores, kind="stable")[: max(count, 1)]
    return np.bincount(owner[best], minlength=len(populations)).tolist()


def _kept(
    populations: Sequence[Population], config: DraftConfig, known: set[str], rng: np.random.Generator
) -> list[str]:
    """The traces of the best that are not all alike, then of some at random."""
    scores = np.concatenate([population.scores for population in populations])
    owner = np.repeat(np.arange(len(populations)), [len(p.scores) for p in populations])
    row = np.concatenate([np.arange(len(p.scores)) for p in populations])
    at_random = min(round(config.random_share * config.keep), config.keep - 1)
    kept: list[str] = []
    chosen: list[list[int]] = [[] for _ in populations]
    used: set[int] = set()

    def take(index: int) -> None:
        (trace,) = populations[owner[index]].traces(row[index : index + 1])
        used.add(index)
        if trace not in known:
            chosen[owner[index]].append(int(row[index]))
            kept.append(trace)

    order: NDArray[np.int64] = np.argsort(-scores, kind="stable")
    passed_over: list[int] = []
    for index in order.tolist():
        if len(kept) >= config.keep - at_random:
            break
        of_sketch = populations[owner[index]]
        if of_sketch.neighbours(int(row[index]), chosen[owner[index]]) < config.neighbours:
            take(index)
        else:
            passed_over.append(index)
    rest = [int(i) for i in rng.permutation(len(scores)) if int(i) not in used]
    for index in [*rest[:at_random], *passed_over, *rest[at_random:]]:
        if len(kept) >= config.keep:
            break
        if index not in used:
            take(index)
    return kept
