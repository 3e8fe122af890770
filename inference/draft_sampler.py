"""Draft, then verify: the search that rates decisions by the thousand and replays only the best of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from ..dataset.measure import MeasureOutcome
from ..dataset.program_sampling import ProgramSampler
from ..dataset.program_sampling.sampler import Proposal
from ..dataset.task import Task
from ..dataset.threads import linear_algebra_threads
from .draft_model import DraftModel
from .draft_pool import DraftPool
from .drafting import Draft, DraftConfig, Drafter, verified
from .stages import StageClock

_PARENTS = 8
_QUICK_GENERATIONS = 2


class DraftSampler(ProgramSampler):
    """Drafts with a `DraftModel`; replays what may gain most, and drafts more around the fastest measured."""

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
        residual: bool = True,
        per_round: int,
        seed: int,
        space: ms.SpaceGenerator | str = "post-order-apply",
        threads: int | None = None,
        clock: StageClock | None = None,
    ) -> None:
        """The first round drafts by `config`, and later ones more by `refining`, around what was fastest.

        Up to `per_round` drafts are replayed a round; the others stay for later ones. `random_share` of a
        round is drawn at random. With `residual`, what was measured corrects the draft model's scores.
        `clock` takes the time of drafting and choosing as the stage `drafting`, apart from that of replay.
        """
        super().__init__(task, target, per_round=per_round, seed=seed, space=space, threads=threads)
        self._drafter = Drafter(task, target, model, self.context)
        self._pool = DraftPool(learns=residual)
        self._config = config
        self._refining = refining
        self._random_share = random_share
        self._clock = clock or StageClock()
        self._searched = False  # by a whole draft, which a quick round is not
        self._drafted: set[str] = set()

    def learn(self, measured: Sequence[Proposal], outcomes: Sequence[MeasureOutcome]) -> None:
        """Remembers what is fast: later drafts descend from it, and the pool is chosen from by it."""
        latencies_s = {
            trace: outcome.latency_s for (trace, _), outcome in zip(measured, outcomes, strict=True)
        }
        with self._drafting():
            self._pool.learn(self._drafter.rated(list(latencies_s)), latencies_s)

    def propose_quickly(self, count: int) -> list[Proposal]:
        """`count` candidates of a short search."""
        short = replace(self._config, generations=min(_QUICK_GENERATIONS, self._config.generations))
        found = dict(self._round(short, count))
        self._known.update(found)
        return list(found.items())

    def _draw(self) -> Iterable[Proposal]:
        config = self._refining if self._searched else self._config
        self._searched = True
        return self._round(config, self.per_round)

    def _round(self, config: DraftConfig, count: int) -> Iterable[Proposal]:
        """Up to `count` candidates, none of them known."""
        with self._drafting():
            drafts = self._drafter.draft(
                replace(config, seed=self._draw_seed()),
                parents=self._pool.fastest[:_PARENTS],
                known=[*self._known, *self._drafted],
                residual=self._pool.residual,
            )
            self._drafted |= {draft.trace for draft in drafts}
            self._pool.add(drafts)
        found: dict[str, ms.MeasureCandidate] = {}
        wanted = count - round(self._random_share * count)
        while len(found) < wanted and (taken := self._take(wanted - len(found))):
            # TVM may have moved a decision of what was drafted: neither form is proposed again.
            replayed = verified(self.context, taken)
            found |= {trace: candidate for trace, candidate in replayed if trace not in self._known}
        return (self._draw_random_new(count - len(found)) | found).items()

    @contextmanager
    def _drafting(self) -> Iterator[None]:
        with self._clock.stage("drafting"), linear_algebra_threads(1):
            yield

    def _take(self, count: int) -> list[Draft]:
        with self._drafting():
            return self._pool.take(count)
