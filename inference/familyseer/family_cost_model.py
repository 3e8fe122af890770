"""Stock cost models by family, for MetaSchedule's own tuning (FamilySeer, section 5.1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms

from ...compiler.described_task import described_task
from ..families.registry import check_grouping, family_of

WARM_UP = 32
"""Programs of a family before its trees are first fitted. Stock waits for 100 programs of all tasks."""


def stock_trees() -> ms.CostModel:
    """MetaSchedule's boosted trees on features of each store, trained from scratch during tuning."""
    return ms.cost_model.XGBModel(num_warmup_samples=WARM_UP)


@derived_object
class FamilyCostModel(ms.cost_model.PyCostModel):
    """One cost model for each family of tasks, trained online on the programs of its family alone.

    Stock tuning accepts it as any other cost model. The measurements of one family do not change the model of
    another. A task whose programs all fail affects the scores in its own family only.
    """

    def __init__(
        self, families: str = "core_operator", make: Callable[[], ms.CostModel] = stock_trees
    ) -> None:
        """`families` names a grouping, `make` creates the model of a family; raises OneShotConfigError."""
        super().__init__()
        check_grouping(families)
        self._grouping = families
        self._make = make
        self._models: dict[str, ms.CostModel] = {}
        self._families: dict[str, str] = {}

    @property
    def models(self) -> dict[str, ms.CostModel]:
        """Models by family, for the families that needed one so far."""
        return self._models

    def update(
        self,
        context: ms.TuneContext,
        candidates: Sequence[ms.MeasureCandidate],
        results: Sequence[ms.runner.RunnerResult],
    ) -> None:
        """See CostModel."""
        self._model(context).update(context, candidates, results)

    def predict(
        self, context: ms.TuneContext, candidates: Sequence[ms.MeasureCandidate]
    ) -> NDArray[np.float64]:
        """See CostModel."""
        scores: NDArray[np.float64] = self._model(context).predict(context, list(candidates))
        return scores

    def _model(self, context: ms.TuneContext) -> ms.CostModel:
        task = described_task(context.mod, str(context.task_name or "task"))
        if task.workload_hash not in self._families:
            self._families[task.workload_hash] = family_of(task, self._grouping)
        family = self._families[task.workload_hash]
        if family not in self._models:
            self._models[family] = self._make()
        return self._models[family]
