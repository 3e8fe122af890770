"""Program sampler that drafts: it rates decisions by the thousand and replays only the best."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from ....compiler.host.threads import linear_algebra_threads
from ....compiler.replay import RejectedError, candidate_trace_json, replay_or_reject
from ....compiler.task import Task
from ....dataset.measure import MeasureOutcome
from ....dataset.sampling.programs.counts import DUPLICATE, CandidateCounts
from ....dataset.sampling.programs.sampler import Proposal
from ...run.profiling import StageClock
from ...surrogate.base import Surrogate
from ..base import Narrow
from ..sampled import DescendingSampler
from .drafter import Drafter, verified
from .drafts import Draft, DraftConfig
from .model import DraftModel
from .pool import DraftPool

_PARENTS = 8
_QUICK_GENERATIONS = 2


class DraftSampler(DescendingSampler):
    """Drafts with a `DraftModel`, and replays the drafts of the highest expected improvement."""

    name = "draft"

    def __init__(
        self,
        task: Task,
        target: Target,
        *,
        model: DraftModel,
        config: DraftConfig,
        refining: DraftConfig,
        random_share: float,
        surrogate: Surrogate | None = None,
        per_round: int,
        seed: int,
        space: ms.SpaceGenerator | str = "post-order-apply",
        threads: int | None = None,
        clock: StageClock | None = None,
        narrow: Narrow | None = None,
    ) -> None:
        """The first round drafts by `config`; later rounds draft by `refining` around the fastest measured.

        Up to `per_round` drafts are replayed a round; the others stay for later rounds. `random_share` of a
        round is drawn at random. The `surrogate` corrects the draft model's scores by the measurements.
        `clock` takes the time of drafting and selecting as the stage `drafting`, apart from that of replay.
        `narrow` is the `DesignSpace.narrowed` of the space; random candidates are within it, too.
        """
        super().__init__(task, target, per_round=per_round, seed=seed, space=space, threads=threads)
        self._drafter = Drafter(task, target, model, self.context, narrow)
        self._pool = DraftPool(surrogate)
        self._surrogate = surrogate
        self._config = config
        self._refining = refining
        self._random_share = random_share
        self._clock = clock or StageClock()
        self._searched = False  # by a whole draft; a quick round is none
        self._drafted: set[str] = set()
        self._starts: list[str] = []

    def learn(self, measured: Sequence[Proposal], outcomes: Sequence[MeasureOutcome]) -> None:
        """Keeps the fastest as parents of later drafts, and teaches the pool's surrogate."""
        latencies_s = {
            trace: outcome.latency_s for (trace, _), outcome in zip(measured, outcomes, strict=True)
        }
        with self._drafting():
            self._pool.learn(self._drafter.rated(list(latencies_s)), latencies_s)

    def descend_from(self, traces: Iterable[str]) -> None:
        """See DescendingSampler."""
        self._starts += traces

    def propose_quickly(self, count: int) -> list[Proposal]:
        """See DescendingSampler; candidates of a short search."""
        short = replace(self._config, generations=min(_QUICK_GENERATIONS, self._config.generations))
        return self._handed_on(dict(self._round(short, count)))

    @property
    def counts(self) -> CandidateCounts:
        """See ProgramSampler; drafts count once they are rated."""
        return replace(super().counts, drafted=self._drafter.candidates_drafted)

    def _draw(self) -> Iterable[Proposal]:
        config = self._refining if self._searched else self._config
        self._searched = True
        return self._round(config, self.per_round)

    def _draw_random(self) -> Proposal | None:
        """See ProgramSampler; MetaSchedule draws from decisions that the space leaves out."""
        if not self._drafter.is_narrowed:
            return super()._draw_random()
        self._tried += 1
        try:
            candidate = replay_or_reject(self.context, self._drafter.random_trace(self.rng))
        except RejectedError as error:
            self.rejected[str(error)] += 1
            return None
        return candidate_trace_json(candidate), candidate

    def _round(self, config: DraftConfig, count: int) -> Iterable[Proposal]:
        """Up to `count` candidates, none of them known."""
        with self._drafting():
            drafts = self._drafter.draft(
                replace(config, seed=self._draw_seed()),
                parents=[*self._pool.fastest, *self._starts][:_PARENTS],
                known=[*self._known, *self._drafted],
                surrogate=self._informed_surrogate(),
            )
            self._drafted |= {draft.trace for draft in drafts}
            self._pool.add(drafts)
        found: dict[str, ms.MeasureCandidate] = {}
        wanted = count - round(self._random_share * count)
        while len(found) < wanted and (taken := self._take(wanted - len(found))):
            found |= self._replayed(taken, found)
        return (self._draw_random_new(count - len(found), found) | found).items()

    def _replayed(self, drafts: Sequence[Draft], found: Container[str]) -> dict[str, ms.MeasureCandidate]:
        """Programs of drafts that are neither known nor found."""
        rejected: Counter[str] = Counter()
        programs = dict(verified(self.context, drafts, rejected))
        # TVM may have moved a decision of what was drafted: neither form is proposed again.
        fresh = {
            trace: candidate
            for trace, candidate in programs.items()
            if trace not in self._known and trace not in found
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
