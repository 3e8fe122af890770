"""Drafting: an evolutionary search over decisions alone. The best candidates are replayed and verified.

One-Shot Tuner searches with a frozen model (section 4.2) and evolves 512 candidates for up to 120 steps
(Table 2). A draft model does not need programs, so that thousands of candidates take only seconds here:

    drafter = Drafter(task, target, DraftModel.load("path/to/draft"), context)
    for trace, candidate in verified(context, drafter.draft(DraftingConfig().first_draft())):
        ...  # rate the candidates with the store-level model, measure the best
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from ....compiler.replay import RejectedError, candidate_trace_json, replay_or_reject
from ....compiler.structure.input_locations import InputLocation, input_locations
from ....compiler.structure.limits import MAX_CODE, within_limits
from ....compiler.structure.nest import Nest
from ....compiler.structure.read_spaces import gpu_limits, read_spaces
from ....compiler.structure.space import SketchSpace
from ....compiler.task import Task
from ....compiler.tvm_compat import NoDesignSpaceError
from ....dataset.features.reading import task_reading
from ....dataset.sampling.programs.counts import DUPLICATE
from ...surrogate.base import Surrogate
from ..base import Narrow
from .drafts import Draft, DraftRequest, measuring_cost_s
from .keeping import best_scores, kept_traces, shares
from .model import DraftModel, Rater
from .population import Allowed, Population, Rate

LEAST_LANES = 4
"""Minimum number of lanes of a vectorised innermost loop: float32 in the narrowest registers."""

_DRAWS = 2048
"""Number of rows drawn to find one within the limits of a GPU."""

_OTHER_LOCATIONS = len(InputLocation) - 1
"""Number of compute locations of inputs, without the location that most candidates use."""


class UnreadableSpaceError(Exception):
    """Drafting cannot read the task or its design space, for example because of an unknown schedule rule."""


class Drafter:
    """Drafts candidates of one task on one target.

    `candidates_drafted` is the number of different candidates that the model rated.
    """

    def __init__(
        self,
        task: Task,
        target: Target,
        model: DraftModel,
        context: ms.TuneContext,
        narrow: Narrow | None = None,
    ) -> None:
        """`context` is a tune context of the task and target. `narrow` leaves out some of its decisions.

        Raises NoDesignSpaceError if the task has nothing to tune, and UnreadableSpaceError if none of its
        sketches can be drafted.
        """
        try:
            reading = task_reading(context.mod)
            structure = reading.structure
            spaces = read_spaces(context, structure, task.name)
        except NoDesignSpaceError:
            raise
        except Exception as error:  # TVM raises ScheduleError, InternalError and others
            raise UnreadableSpaceError(f"{type(error).__name__}: {error}") from error
        chosen = spaces if narrow is None else narrow(spaces)
        self.is_narrowed = chosen is not spaces
        self.spaces = list(chosen)
        if not self.spaces:
            raise UnreadableSpaceError("no sketch draws a decision")
        vector = reading.features
        limits = gpu_limits(target, MAX_CODE)
        self._allowed: Allowed | None = None if limits is None else partial(within_limits, limits=limits)
        self._has_vectors = limits is None and any(space.sketch.max_vector for space in self.spaces)
        self._has_input_locations = limits is None and any(space.sketch.producers for space in self.spaces)
        self._has_guards = limits is None and any(space.sketch.guards for space in self.spaces)
        self._raters = [model.rater(space.sketch, structure, vector) for space in self.spaces]
        self._drafted: list[set[Any]] = [set() for _ in self.spaces]

    @property
    def candidates_drafted(self) -> int:
        """Number of different candidates rated so far."""
        return sum(len(keys) for keys in self._drafted)

    def draft(
        self,
        request: DraftRequest,
        parents: Sequence[str] = (),
        known: Sequence[str] = (),
        surrogate: Surrogate | None = None,
    ) -> list[Draft]:
        """Up to `request.keep` different candidates; equal arguments give equal drafts.

        Candidates of all kinds come first, in descending order of score, followed by some random ones.
        Candidates that evolved separately (`request.vectorised_share`, `request.compute_location_share`)
        follow in the same order.

        Args:
            parents: traces to start from, such as the fastest measured ones.
            known: traces that are not drafted again.
            surrogate: corrects the scores during the search. The drafts keep the scores of the model.
        """
        rng = np.random.default_rng(request.seed)
        rates = self._raters if surrogate is None else self._corrected(surrogate)
        niches = _OTHER_LOCATIONS * self._has_input_locations + self._has_guards
        share = request.compute_location_share / max(niches, 1)
        niche = _resized(request, round(share * request.population), round(share * request.keep))
        rest = niche and _resized(
            request, request.population - niches * niche.population, request.keep - niches * niche.keep
        )
        if niche is None or rest is None or not niches:
            return self.rated(self._mixed(request, rates, parents, set(known), rng))
        traces = self._mixed(rest, rates, parents, set(known), rng)
        for allowed in self._niches(traces):
            traces += self._evolved(niche, allowed, rates, parents, {*known, *traces}, rng)
        return self.rated(traces)

    def random_trace(self, rng: np.random.Generator) -> str:
        """Trace of a candidate of a random sketch with uniformly drawn decisions.

        The trace may be invalid. On a GPU this happens only if hardly any candidate of the sketch is within
        the limits.
        """
        space = self.spaces[rng.integers(len(self.spaces))]
        rows = space.canonical(space.sample(1 if self._allowed is None else _DRAWS, rng))
        if self._allowed is not None:
            legal = rows[self._allowed(Nest.of(space.sketch, space.values(rows)))]
            rows = legal if len(legal) else rows
        return space.traces(rows[:1])[0]

    def _niches(self, usual: Sequence[str]) -> list[Allowed]:
        """Kinds of candidates that evolve separately because they are rare among the `usual` candidates."""
        niches: list[Allowed] = []
        if self._has_input_locations:
            most = Counter(self._input_locations(usual)).most_common(1)
            others = sorted(set(InputLocation) - {location for location, _ in most})
            niches += [partial(_has_inputs_at, location=location) for location in others]
        if self._has_guards:
            niches.append(_skips_inserted_zeros)
        return (
            [partial(_is_allowed_and_vectorised, allowed=niche) for niche in niches]
            if self._has_vectors
            else niches
        )

    def _mixed(
        self,
        request: DraftRequest,
        rates: Sequence[Rate],
        parents: Sequence[str],
        known: set[str],
        rng: np.random.Generator,
    ) -> list[str]:
        """Traces of candidates of all kinds, followed by separately evolved vectorised candidates."""
        share = request.vectorised_share if self._has_vectors else 0.0
        part = _resized(request, round(share * request.population), round(share * request.keep))
        apart = self._evolved(part, _is_vectorised, rates, parents, known, rng)
        spent = part.population if part and apart else 0
        rest = _resized(request, request.population - spent, request.keep - len(apart))
        return self._evolved(rest, self._allowed, rates, parents, {*known, *apart}, rng) + apart

    def _input_locations(self, traces: Sequence[str]) -> list[int]:
        """Compute location of the inputs (an `InputLocation`) of each candidate of this drafter."""
        found: dict[str, int] = {}
        for space, _, known, values in self._read(traces):
            locations = input_locations(Nest.of(space.sketch, values)).tolist()
            found.update(zip(known, locations, strict=True))
        return [found[trace] for trace in traces]

    def _evolved(
        self,
        request: DraftRequest | None,
        allowed: Allowed | None,
        rates: Sequence[Rate],
        parents: Sequence[str],
        known: set[str],
        rng: np.random.Generator,
    ) -> list[str]:
        """Traces that evolution finds among the allowed candidates; empty without `request`."""
        if request is None:
            return []
        populations = [
            Population(space, rate, allowed) for space, rate in zip(self.spaces, rates, strict=True)
        ]
        for population in populations:
            population.add_traces(parents)
        share = shares(populations, request.population)
        for population, count in zip(populations, share, strict=True):
            population.add(population.sample(count, rng))
        by_space = populations
        populations = [population for population in populations if len(population.scores)]
        if not populations:
            return []
        for _ in range(request.generations):
            best = best_scores(populations, request.population // 4)
            share = shares(populations, request.population, best)
            for population, count in zip(populations, share, strict=True):
                fresh = round(request.random_share * count)
                children = population.children(count - fresh, request.mutation_probability, rng)
                population.add(np.concatenate([children, population.sample(fresh, rng)]))
        for population, drafted in zip(by_space, self._drafted, strict=True):
            drafted.update(population.keys())
        return kept_traces(populations, request, known, rng)

    def rated(self, traces: Sequence[str]) -> list[Draft]:
        """Drafts of traces, in order. Traces of sketches that are not drafted are left out."""
        found: dict[str, Draft] = {}
        for space, rater, known, values in self._read(traces):
            scores, embeddings = rater.with_embeddings(values)
            costs_s = measuring_cost_s(Nest.of(space.sketch, values)).tolist()
            for trace, *of in zip(known, scores.tolist(), embeddings, costs_s, strict=True):
                found[trace] = Draft(trace, *of)
        return [found[trace] for trace in traces if trace in found]

    def _read(
        self, traces: Sequence[str]
    ) -> Iterator[tuple[SketchSpace, Rater, list[str], NDArray[np.int64]]]:
        """Yields each space with its rater, its traces among the given ones, and their values [m, width]."""
        for space, rater in zip(self.spaces, self._raters, strict=True):
            read = [(trace, space.sketch.values_in(trace)) for trace in traces]
            known = {trace: values for trace, values in read if values is not None}
            if known:
                yield space, rater, list(known), np.array(list(known.values()), dtype=np.int64)

    def _corrected(self, surrogate: Surrogate) -> list[Rate]:
        return [partial(_corrected, rater, surrogate) for rater in self._raters]


def _resized(request: DraftRequest, population: int, keep: int) -> DraftRequest | None:
    """The request with different numbers of candidates; None if either number is 0."""
    return replace(request, population=population, keep=keep) if population and keep else None


def _is_vectorised(nest: Nest) -> NDArray[np.bool_]:
    return nest.lanes(loops=1) >= LEAST_LANES


def _has_inputs_at(nest: Nest, location: InputLocation) -> NDArray[np.bool_]:
    return input_locations(nest) == location


def _skips_inserted_zeros(nest: Nest) -> NDArray[np.bool_]:
    return nest.live_fraction() < 1


def _is_allowed_and_vectorised(nest: Nest, allowed: Allowed) -> NDArray[np.bool_]:
    return allowed(nest) & _is_vectorised(nest)


def _corrected(rater: Rater, surrogate: Surrogate, values: NDArray[np.int64]) -> NDArray[np.floating]:
    scores, embeddings = rater.with_embeddings(values)
    return surrogate.corrected(embeddings, scores)


def verified(
    context: ms.TuneContext, drafts: Sequence[Draft], rejected: Counter[str] | None = None
) -> Iterator[tuple[str, ms.MeasureCandidate]]:
    """Replays drafts and yields each different program with its trace.

    The trace is read from the program, because TVM moves decisions that it does not allow. `rejected` counts
    the other drafts by cause.
    """
    rejected = Counter() if rejected is None else rejected
    seen: set[str] = set()
    for draft in drafts:
        try:
            candidate = replay_or_reject(context, draft.trace)
        except RejectedError as error:
            rejected[str(error)] += 1
            continue
        trace = candidate_trace_json(candidate)
        if trace in seen:
            rejected[DUPLICATE] += 1
        else:
            seen.add(trace)
            yield trace, candidate
