"""`OneShotStrategy`: the One-Shot search as the search strategy of a stock MetaSchedule tuning."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms

from ..dataset.described_task import described_task
from ..dataset.measure import MeasureOutcome
from ..dataset.program_sampling import ProgramSampler
from ..dataset.records import FailureKind
from ..dataset.target_hardware import target_hardware
from ..dataset.tvm_compat import NoDesignSpaceError, load_tensor_intrinsics, parse_target, target_to_json
from .draft_choice import with_fitting_draft
from .draft_model import DraftModel, drafting_model
from .likeness import Likeness
from .search_config import OneShotConfig, OneShotConfigError
from .session import make_sampler
from .validation import Choice, Proposal, Validation


@derived_object
class OneShotStrategy(ms.search_strategy.PySearchStrategy):
    """One search and one validation a task: for `ms.tune_tir`, `tune_relax` and `tune_tasks`.

    ```python
    from foretune.inference import OneShotConfig, OneShotStrategy, PretrainedCostModel

    database = ms.tune_tir(
        mod, target, work_dir, max_trials_global=64,
        cost_model=PretrainedCostModel.load("cpu"),
        strategy=OneShotStrategy(OneShotConfig(strategy="annealing", rounds=1, top_k=64)),
    )
    ```

    With networks in Relax it goes into stock tuning as it is, and the schedules come out as always:

    ```python
    database = ms.relax_integration.tune_relax(
        mod, {}, target, work_dir, max_trials_global=1000,
        cost_model=PretrainedCostModel.load("cpu"), strategy=OneShotStrategy(),
    )
    with target, database:
        tuned = relax.transform.MetaScheduleApplyDatabase()(mod)
    ```

    Give more trials than the tasks have candidates, `top_k` each: fewer are spent on the first tasks alone.
    MetaSchedule's own strategies search anew for each batch of `num_trials_per_iter` until the trials are
    spent. This one proposes up to `top_k` candidates in `rounds`, in batches as `stop` says, and is done
    (One-Shot Tuner section 4.2); trials left over go to no one. It searches with the cost model that the
    tuning was given, which need not be ours, and on the space generator of the tuning. `residual`,
    `least_share`, `extra_rounds`, `finalists`, `processes` and `overlap` are of `foretune-tune` alone.
    """

    def __init__(self, config: OneShotConfig | None = None, draft_model: DraftModel | None = None) -> None:
        """`draft_model` is what the strategy `draft` drafts with, the same for every task.

        Where none is given, it is loaded as `config.draft` says, for this machine's CPU as the target uses
        it; a target that no checkpoint fits is searched by evolution.
        """
        super().__init__()
        load_tensor_intrinsics()  # see PretrainedCostModel
        self.config = config or OneShotConfig()
        self._draft_model = draft_model
        self._context: ms.TuneContext | None = None
        self._sampler: ProgramSampler | None = None
        self._cost_model: ms.CostModel | None = None
        self._likeness: Likeness | None = None
        self._reset()

    def _reset(self) -> None:
        self._rounds = 0
        self._left = 0
        self._open: dict[str, ms.MeasureCandidate] = {}
        """What was searched and not measured."""
        self._choice = Choice((), self.config.stop)
        self._round_ends = 0
        """Of how many measurements the round is the last one."""
        self._batch: Sequence[Proposal] = ()

    def _initialize_with_tune_context(self, context: ms.TuneContext) -> None:
        """MetaSchedule calls this several times; the last context counts."""
        self._context = context

    def pre_tuning(
        self,
        max_trials: int,
        num_trials_per_iter: int,
        design_spaces: Sequence[Any],
        database: ms.database.Database | None = None,
        cost_model: ms.CostModel | None = None,
    ) -> None:
        """Starts the search of the context's task.

        Raises ValueError without a cost model, and what `with_fitting_draft` raises.
        """
        if cost_model is None:
            raise ValueError("OneShotStrategy searches with a cost model: give cost_model=")
        assert self._context is not None
        context = self._context
        self._reset()
        self._left = min(max_trials, self.config.top_k)
        self._cost_model = cost_model
        task = described_task(context.mod, context.task_name or "")
        config, draft_model = self.config, self._draft_model
        if draft_model is None:
            config, draft_model = _drafting(config, target_to_json(context.target))
        self._likeness = Likeness(context.mod, draft_model.hardware if draft_model else None)
        try:
            self._sampler = make_sampler(
                task,
                context.target,
                cost_model,
                config,
                draft_model=draft_model,
                space=context.space_generator,
                threads=context.num_threads,
            )
        except NoDesignSpaceError:  # nothing to tune is no error to stock tuning either
            self._sampler = None

    def post_tuning(self) -> None:
        """Lets go of the search."""
        self._sampler = None
        self._reset()

    def generate_measure_candidates(self) -> list[ms.MeasureCandidate] | None:
        """The candidates to measure next; None when the search is over."""
        while self._sampler is not None and self._left:
            measured = len(self._choice.known)
            if self._rounds and measured < self._round_ends:
                self._batch = self._choice.next_batch(min(self._left, self._round_ends - measured))
                if self._batch:
                    self._left -= len(self._batch)
                    return [self._open[proposal.trace] for proposal in self._batch]
            if self._rounds == self.config.rounds or self._choice.over:
                break
            self._round_ends = measured + self.config.room(self._rounds)
            self._rounds += 1
            self._choice.offer(self._searched(self._sampler))
        return None

    def _searched(self, sampler: ProgramSampler) -> list[Proposal]:
        """The proposals of a round."""
        assert self._context is not None and self._cost_model is not None and self._likeness is not None
        proposed = sampler.propose()
        if not proposed:
            return []
        self._open |= dict(proposed)
        candidates = [candidate for _, candidate in proposed]
        scores = self._cost_model.predict(self._context, candidates)
        rows = zip(proposed, scores, self._likeness(candidates), strict=True)
        return [Proposal(trace, "", "", float(score), place) for (trace, _), score, place in rows]

    def notify_runner_results(
        self, measure_candidates: Sequence[ms.MeasureCandidate], results: Sequence[ms.runner.RunnerResult]
    ) -> None:
        """Chooses what comes next by it, and makes the fastest the parents of the next round."""
        if self._sampler is None:
            return
        outcomes = [
            MeasureOutcome(tuple(float(seconds) for seconds in result.run_secs))
            if result.run_secs
            else MeasureOutcome(failure=FailureKind.RUN_ERROR, message=str(result.error_msg))
            for result in results
        ]
        measured = [(proposal.trace, self._open.pop(proposal.trace)) for proposal in self._batch]
        self._sampler.learn(measured, outcomes)
        self._choice.learn(Validation(*pair) for pair in zip(self._batch, outcomes, strict=True))

    def clone(self) -> OneShotStrategy:
        """A strategy of the same settings, for another task."""
        return OneShotStrategy(self.config, self._draft_model)


@lru_cache(maxsize=8)
def _drafting(config: OneShotConfig, target: str) -> tuple[OneShotConfig, DraftModel | None]:
    """What to search by, and the model of a search that drafts: made once for all tasks of a target."""
    found = parse_target(target)
    config = with_fitting_draft(config, found)
    if config.strategy != "draft":
        return config, None
    if found.kind.name != "llvm":
        raise OneShotConfigError(
            f"search.draft.checkpoint={config.draft.checkpoint}: the device of {found.kind.name} targets "
            "is not known here; give draft_model=DraftModel.load(checkpoint, hardware)"
        )
    return config, drafting_model(config, target_hardware(found))
