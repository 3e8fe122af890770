"""Draft, then verify: the search that rates decisions by the thousand and replays only the best of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from ..dataset.interruption import interrupts_deferred
from ..dataset.measure import MeasureOutcome
from ..dataset.program_sampling import ProgramSampler
from ..dataset.program_sampling.sampler import Proposal
from ..dataset.task import Task
from .draft_model import DraftModel
from .drafting import DraftConfig, Drafter, verified

_PARENTS = 16
_QUICK_GENERATIONS = 2
_LEFT_OVER = 2  # rounds' worth of candidates that are kept, each of which holds a program


class DraftSampler(ProgramSampler):
    """Drafts with a `DraftModel`, verifies with `scorer`, and goes on from the fastest that were measured."""

    name = "draft"
    scorer: ms.CostModel

    def __init__(
        self,
        task: Task,
        target: Target,
        *,
        scorer: ms.CostModel,
        model: DraftModel,
        config: DraftConfig,
        random_share: float,
        residual: bool = False,
        per_round: int,
        seed: int,
        space: ms.SpaceGenerator | str = "post-order-apply",
        threads: int | None = None,
    ) -> None:
        """`config.keep` drafts a round are replayed; `random_share` of a round is drawn at random.

        With `residual`, what was measured corrects the draft model's scores (`scorer` sees to its own).
        The best of what was replayed and not proposed stay candidates of later rounds, which draft others.
        """
        super().__init__(
            task, target, per_round=per_round, seed=seed, scorer=scorer, space=space, threads=threads
        )
        self._drafter = Drafter(task, target, model, self.context)
        self._config = config
        self._random_share = random_share
        self._residual = residual
        self._measured: dict[str, float] = {}
        self._replayed: dict[str, ms.MeasureCandidate] = {}
        self._drafted: set[str] = set()

    def learn(self, measured: Sequence[Proposal], outcomes: Sequence[MeasureOutcome]) -> None:
        """Remembers what is fast: the next round's drafts descend from it."""
        self._measured |= {
            trace: outcome.latency_s for (trace, _), outcome in zip(measured, outcomes, strict=True)
        }
        super().learn(measured, outcomes)

    def propose_quickly(self, count: int, drafts: int) -> list[Proposal]:
        """The best `count` of `drafts` that a short search finds."""
        short = replace(
            self._config, generations=min(_QUICK_GENERATIONS, self._config.generations), keep=drafts
        )
        found = dict(self._round(short, count))
        self._known.update(found)
        return list(found.items())

    def _draw(self) -> Iterable[Proposal]:
        return self._round(self._config, self.per_round)

    def _round(self, config: DraftConfig, count: int) -> Iterable[Proposal]:
        """Up to `count` candidates, none of them known."""
        fastest = sorted(self._measured, key=lambda trace: self._measured[trace])[:_PARENTS]
        drafts = self._drafter.draft(
            replace(config, seed=self._draw_seed()),
            parents=fastest,
            known=[*self._known, *self._drafted],
            measured=self._measured if self._residual else None,
        )
        # TVM may have moved a decision of what was drafted: neither form is drafted again.
        self._drafted |= {draft.trace for draft in drafts}
        self._replayed |= dict(verified(self.context, drafts))
        self._drafted |= self._replayed.keys()
        self._replayed = {t: c for t, c in self._replayed.items() if t not in self._known}
        checked = list(self._replayed.items())
        scores = np.zeros(0)
        if checked:
            with interrupts_deferred():
                scores = self.scorer.predict(self.context, [candidate for _, candidate in checked])
        order = np.argsort(-scores, kind="stable")
        best = order[: count - round(self._random_share * count)]
        self._replayed = dict(checked[row] for row in order[: len(best) + _LEFT_OVER * self.per_round])
        chosen = {checked[row][0]: checked[row][1] for row in best}
        return (self._draw_random_new(count - len(chosen)) | chosen).items()
