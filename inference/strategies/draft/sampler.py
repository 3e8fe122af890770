"""Program sampler that drafts: it rates decisions by the thousand and replays only the best drafts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from ....compiler.host.threads import linear_algebra_threads
from ....compiler.replay import RejectedError, replay_or_reject
from ....dataset.measure import MeasureOutcome
from ....dataset.sampling.programs import LiveProgram, LivePrograms
from ....dataset.sampling.programs.counts import DUPLICATE, CandidateCounts
from ...surrogate.base import Surrogate
from ..base import StrategySetting
from ..sampled import DescendingSampler
from .config import DraftingConfig
from .drafter import Drafter, verified
from .drafts import Draft, DraftRequest
from .pool import DraftPool

_PARENTS = 8
_QUICK_GENERATIONS = 2


class DraftSampler(DescendingSampler):
    """Drafts with a `DraftModel`, and replays the drafts with the highest expected improvement."""

    name = "draft"

    def __init__(self, setting: StrategySetting, config: DraftingConfig) -> None:
        """`setting.resources` is the DraftModel.

        A round replays up to `setting.per_round` drafts; later rounds can use the other drafts. The surrogate
        corrects the draft model's scores with the measurements. The clock records drafting and selecting as
        the stage `drafting`, separately from replay. Random candidates are also within the narrowed space.
        """
        super().__init__(setting)
        self._drafter = Drafter(setting.task, setting.target, setting.resources, self.context, setting.narrow)
        self._pool = DraftPool(setting.surrogate)
        self._surrogate = setting.surrogate
        self._first = config.first_draft()
        self._refining = config.refining_draft()
        self._clock = setting.clock
        self._searched = False  # by a full draft; a quick round does not count
        self._starts: list[str] = []

    def learn(self, measured: Sequence[LiveProgram], outcomes: Sequence[MeasureOutcome]) -> None:
        """Teaches the surrogate, and keeps the fastest programs as parents of later drafts."""
        latencies_s = {
            trace: outcome.latency_s for (trace, _), outcome in zip(measured, outcomes, strict=True)
        }
        with self._drafting():
            self._pool.learn(self._drafter.rated(list(latencies_s)), latencies_s)

    def descend_from(self, traces: Iterable[str]) -> None:
        """See DescendingSampler."""
        self._starts += traces

    def propose_quickly(self, count: int) -> list[LiveProgram]:
        """See DescendingSampler. The candidates come from a short search."""
        short = replace(self._first, generations=min(_QUICK_GENERATIONS, self._first.generations))
        return self._handed_on(self._round(short, count))

    @property
    def counts(self) -> CandidateCounts:
        """See ProgramSampler. A draft counts once it is rated."""
        return replace(super().counts, drafted=self._drafter.candidates_drafted)

    def _draw(self) -> LivePrograms:
        request = self._refining if self._searched else self._first
        self._searched = True
        return self._round(request, self.per_round)

    def _draw_random(self) -> LiveProgram | None:
        """See ProgramSampler. MetaSchedule would also draw decisions that the narrowed space leaves out."""
        if not self._drafter.is_narrowed:
            return super()._draw_random()
        self._tried += 1
        try:
            return LiveProgram.of(replay_or_reject(self.context, self._drafter.random_trace(self.rng)))
        except RejectedError as error:
            self.rejected[str(error)] += 1
            return None

    def _round(self, request: DraftRequest, count: int) -> LivePrograms:
        """Up to `count` new candidates."""
        with self._drafting():
            drafts = self._drafter.draft(
                replace(request, seed=self._draw_seed()),
                parents=[*self._pool.fastest, *self._starts][:_PARENTS],
                known=[*self.known, *self._pool.traces],
                surrogate=self._informed_surrogate(),
            )
            self._pool.add(drafts)
        found: LivePrograms = {}
        wanted = count - round(self._random_share * count)
        while len(found) < wanted and (taken := self._take(wanted - len(found))):
            found |= self._replayed(taken, found)
        return self._draw_random_new(count - len(found), found) | found

    def _replayed(self, drafts: Sequence[Draft], found: Container[str]) -> LivePrograms:
        """Programs of drafts that are neither known nor in `found`."""
        rejected: Counter[str] = Counter()
        programs = dict(verified(self.context, drafts, rejected))
        # TVM may have moved a decision of a draft. Neither form is proposed again.
        fresh = {
            trace: program
            for trace, program in programs.items()
            if trace not in self.known and trace not in found
        }
        self._tried += len(drafts)
        self.passed_over[DUPLICATE] += rejected.pop(DUPLICATE, 0) + len(programs) - len(fresh)
        self.rejected.update(rejected)
        return fresh

    def _informed_surrogate(self) -> Surrogate | None:
        return self._surrogate if self._surrogate is not None and self._surrogate.is_informed else None

    @contextmanager
    def _drafting(self) -> Iterator[None]:
        with self._clock.stage("drafting"), linear_algebra_threads(1):
            yield

    def _take(self, count: int) -> list[Draft]:
        with self._drafting():
            return self._pool.take(count)
