"""Frozen cost models for a stock MetaSchedule search, with or without a checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tvm_ffi
from numpy.typing import NDArray
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms

from ...compiler.tvm_compat import available_cores, load_tensor_intrinsics
from ...dataset.features import FEATURE_VERSION
from ...dataset.features.assembly import FeatureAssembler
from ...dataset.hardware import Hardware
from ...dataset.hardware.target_hardware import host_hardware
from ...models.checkpoints.checkpoint import Checkpoint, load_checkpoint
from ..run.profiling import StageClock

_SCORES_KEPT = 100_000


@derived_object
class PretrainedCostModel(ms.cost_model.PyCostModel):
    """Checkpoint as a frozen cost model for `ms.tune_tir`, `tune_relax` and every search strategy.

    ```python
    from foretune.inference import PretrainedCostModel

    database = ms.tune_tir(
        mod, target, work_dir, max_trials_global=64, cost_model=PretrainedCostModel.load("cpu")
    )
    ```

    The model is trained before the search, and the search does not update it (One-Shot Tuner section 4.2). It
    has no state per task. One object can therefore serve any number of tasks sequentially.
    """

    def __init__(self, checkpoint: Checkpoint, hardware: Hardware | None = None) -> None:
        """`hardware` is the target device; None means this machine's CPU with all its cores."""
        super().__init__()
        load_tensor_intrinsics()  # every tuning run needs them; TVM's own import lasts half a minute
        self.checkpoint = checkpoint
        self.hardware = hardware or host_hardware(available_cores())
        self._assembler = FeatureAssembler(
            self.hardware, counted=checkpoint.predictor.normaliser.reads_counts
        )
        self.candidates_scored = 0
        """Number of scored programs. A program that a search visits repeatedly counts once."""
        self.clock = StageClock()
        """Seconds spent on features and on prediction."""
        self._scores: dict[int, float] = {}

    @classmethod
    def load(cls, path: str | Path, hardware: Hardware | None = None) -> PretrainedCostModel:
        """Loads a checkpoint directory, or a shipped checkpoint by its name.

        Raises CheckpointNotFoundError, FeatureVersionError or CorruptCheckpointError. Loading a checkpoint
        never unpickles anything.
        """
        return cls(load_checkpoint(path, feature_version=FEATURE_VERSION), hardware)

    def save(self, path: str) -> None:
        """Raises NotImplementedError: the model is frozen, and its checkpoint contains all of it."""
        raise NotImplementedError(f"save({path!r}): copy the checkpoint {self.checkpoint.path} instead")

    def update(
        self,
        context: ms.TuneContext,
        candidates: Sequence[ms.MeasureCandidate],
        results: Sequence[ms.runner.RunnerResult],
    ) -> None:
        """Does nothing: the model is frozen."""

    def predict(
        self, context: ms.TuneContext, candidates: Sequence[ms.MeasureCandidate]
    ) -> NDArray[np.float64]:
        """Predicted scores, float64 [n]; higher is faster, near 1 for the best program of the task."""
        if not len(candidates):
            return np.zeros(0)
        # A search visits a fifth of its programs again, and its proposals were scored before.
        programs = [tvm_ffi.structural_hash(candidate.sch.mod) for candidate in candidates]
        new = {
            program: candidate
            for program, candidate in zip(programs, candidates, strict=True)
            if program not in self._scores
        }
        if len(self._scores) + len(new) > _SCORES_KEPT:
            self._scores.clear()
            new = dict(zip(programs, candidates, strict=True))
        self.candidates_scored += len(new)
        if new:
            with self.clock.stage("features"):
                table = self._assembler.assemble(context, list(new.values()))
            with self.clock.stage("prediction"):
                predicted = self.checkpoint.predictor.predict(table.batch())
            self._scores |= dict(zip(new, predicted.tolist(), strict=True))
        return np.array([self._scores[program] for program in programs], dtype=np.float64)


@derived_object
class UninformedCostModel(ms.cost_model.PyCostModel):
    """Cost model that gives every program the same score, for devices without a checkpoint.

    With this model, a search draws programs at random and only its measurements guide it. The attributes are
    the same as in `PretrainedCostModel`.
    """

    def __init__(self, hardware: Hardware | None = None) -> None:
        """See `PretrainedCostModel` for `hardware`."""
        super().__init__()
        load_tensor_intrinsics()  # see PretrainedCostModel
        self.hardware = hardware or host_hardware(available_cores())
        self.candidates_scored = 0
        """Always 0: no program is rated."""
        self.clock = StageClock()
        """Stages of the search that uses the model. The model itself adds no time."""

    def save(self, path: str) -> None:
        """Does nothing: the model has no state."""

    def update(
        self,
        context: ms.TuneContext,
        candidates: Sequence[ms.MeasureCandidate],
        results: Sequence[ms.runner.RunnerResult],
    ) -> None:
        """Does nothing: the model is frozen."""

    def predict(
        self, context: ms.TuneContext, candidates: Sequence[ms.MeasureCandidate]
    ) -> NDArray[np.float64]:
        """Ones, float64 [n]."""
        return np.ones(len(candidates))


def load_cost_model(
    checkpoint: str | Path | None, hardware: Hardware | None = None
) -> PretrainedCostModel | UninformedCostModel:
    """Cost model of a checkpoint; `UninformedCostModel` for None. Errors as in `PretrainedCostModel.load`."""
    if checkpoint is None:
        return UninformedCostModel(hardware)
    return PretrainedCostModel.load(checkpoint, hardware)
