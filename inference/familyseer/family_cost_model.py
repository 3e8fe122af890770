"""Stock cost models by family, for MetaSchedule's own tuning (FamilySeer, section 5.1)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
from zipfile import BadZipFile, ZipFile

import numpy as np
from numpy.typing import NDArray
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms

from ...compiler.described_task import described_task
from ...compiler.tvm_compat import load_tensor_intrinsics, target_to_json, workload_hash
from ...errors import UserError
from ..families.registry import check_grouping, family_of

WARM_UP = 32
"""Programs of a family before its trees are first fitted. Stock waits for 100 programs of all tasks."""


def stock_trees() -> ms.CostModel:
    """MetaSchedule's boosted trees on features of each store, trained from scratch during tuning."""
    return ms.cost_model.XGBModel(num_warmup_samples=WARM_UP)


_INDEX = "families.json"


class FamilyModelFileError(UserError, ValueError):
    """A file is not one of `FamilyCostModel.save`, or its families are others."""


class FamilyKey(NamedTuple):
    """Family of tasks on one target. Latencies on different targets do not compare."""

    family: str
    target: str
    """JSON of the target."""


@derived_object
class FamilyCostModel(ms.cost_model.PyCostModel):
    """One cost model for each family of tasks, trained online on the programs of its family alone.

    Stock tuning accepts it as any other cost model. The measurements of one family do not change the model of
    another. A task whose programs all fail affects the scores in its own family only. Each target has its own
    models.
    """

    def __init__(
        self, families: str = "core_operator", make: Callable[[], ms.CostModel] = stock_trees
    ) -> None:
        """`families` names a grouping, `make` creates the model of a family; raises OneShotConfigError."""
        super().__init__()
        load_tensor_intrinsics()  # see PretrainedCostModel
        check_grouping(families)
        self._grouping = families
        self._make = make
        self._models: dict[FamilyKey, ms.CostModel] = {}
        self._taught: set[FamilyKey] = set()
        self._families: dict[str, str] = {}

    @property
    def models(self) -> dict[FamilyKey, ms.CostModel]:
        """Models by family and target, for the families that needed one so far."""
        return self._models

    def save(self, path: str | Path) -> None:
        """Writes the models that have learned to one file, a ZIP archive; replaces the file."""
        learned = {key: model for key, model in self._models.items() if self._has_learned(key)}
        index = {"families": self._grouping, "models": [list(key) for key in learned]}
        with TemporaryDirectory() as folder, ZipFile(path, "w") as archive:
            archive.writestr(_INDEX, json.dumps(index))
            for number, model in enumerate(learned.values()):
                model.save(str(Path(folder, _part(number))))
                archive.write(Path(folder, _part(number)), _part(number))

    def load(self, path: str | Path) -> None:
        """Replaces the models by the models of a file that `save` wrote.

        Each model is read by its own `load`. MetaSchedule's tree models unpickle their data, so load only
        files that you trust. Raises FamilyModelFileError.
        """
        loaded: dict[FamilyKey, ms.CostModel] = {}
        try:
            with TemporaryDirectory() as folder, ZipFile(path) as archive:
                index = json.loads(archive.read(_INDEX))
                grouping, keys = index["families"], [FamilyKey(*key) for key in index["models"]]
                for number, key in enumerate(keys):
                    loaded[key] = self._make()
                    loaded[key].load(archive.extract(_part(number), folder))
        except (BadZipFile, KeyError, TypeError, ValueError) as error:
            raise FamilyModelFileError(
                f"{path}: not a file of FamilyCostModel.save ({error}); save the model again"
            ) from error
        if grouping != self._grouping:
            raise FamilyModelFileError(
                f"{path}: its families are grouped by {grouping}, those of this model by {self._grouping}; "
                f"use FamilyCostModel(families={grouping!r})"
            )
        self._models, self._taught = loaded, set(loaded)

    def update(
        self,
        context: ms.TuneContext,
        candidates: Sequence[ms.MeasureCandidate],
        results: Sequence[ms.runner.RunnerResult],
    ) -> None:
        """See CostModel."""
        key = self._key(context)
        self._model(key).update(context, list(candidates), list(results))
        if len(candidates):
            self._taught.add(key)

    def predict(
        self, context: ms.TuneContext, candidates: Sequence[ms.MeasureCandidate]
    ) -> NDArray[np.float64]:
        """See CostModel."""
        if not len(candidates):
            return np.zeros(0)
        scores: NDArray[np.float64] = self._model(self._key(context)).predict(context, list(candidates))
        return scores

    def _key(self, context: ms.TuneContext) -> FamilyKey:
        workload = workload_hash(context.mod)
        if workload not in self._families:
            task = described_task(context.mod, str(context.task_name or "task"))
            self._families[workload] = family_of(task, self._grouping)
        return FamilyKey(self._families[workload], target_to_json(context.target))

    def _model(self, key: FamilyKey) -> ms.CostModel:
        if key not in self._models:
            self._models[key] = self._make()
        return self._models[key]

    def _has_learned(self, key: FamilyKey) -> bool:
        """Whether a model has something to save. Trees that saw only programs without stores are not fitted.

        TVM cannot load such trees.
        """
        return key in self._taught and getattr(self._models[key], "booster", self) is not None


def _part(number: int) -> str:
    """Name of a model's file; NumPy, by which some models save themselves, appends `.npy` to other names."""
    return f"{number}.npy"
