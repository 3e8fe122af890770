"""`PretrainedCostModel`: a checkpoint as the cost model of a stock MetaSchedule search."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tvm_ffi
from numpy.typing import NDArray
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms

from ..dataset.features import FEATURE_VERSION
from ..dataset.features.assembly import FeatureAssembler
from ..dataset.hardware import Hardware, probe_cpu
from ..dataset.tvm_compat import available_cores, load_tensor_intrinsics
from ..models.checkpoint import Checkpoint, load_checkpoint
from .stages import StageClock

_SCORES_KEPT = 100_000


@derived_object
class PretrainedCostModel(ms.cost_model.PyCostModel):
    """A frozen cost model for `ms.tune_tir`, `ms.relax_integration.tune_relax` and every search strategy.

    ```python
    from foretune.inference import PretrainedCostModel

    database = ms.tune_tir(
        mod, target, work_dir, max_trials_global=64, cost_model=PretrainedCostModel.load("cpu")
    )
    ```

    It is trained before the search and not updated by it (One-Shot Tuner section 4.2), so it holds nothing of
    a task and one object serves any number of them, one after the other.
    """

    def __init__(self, checkpoint: Checkpoint, hardware: Hardware | None = None) -> None:
        """`hardware` is the device that is tuned for; None is this machine's CPU with all its cores."""
        super().__init__()
        load_tensor_intrinsics()  # every tuning imports them, which takes TVM itself half a minute
        self.checkpoint = checkpoint
        self.hardware = hardware or probe_cpu(available_cores())
        self._assembler = FeatureAssembler(self.hardware)
        self.candidates_scored = 0
        """Programs that were scored; one that a search comes back to counts once."""
        self.clock = StageClock()
        """Seconds spent on features and on prediction."""
        self._scores: dict[int, float] = {}

    @classmethod
    def load(cls, path: str | Path, hardware: Hardware | None = None) -> PretrainedCostModel:
        """Loads a checkpoint directory, or a checkpoint that comes with foretune by its name.

        Raises CheckpointNotFoundError, FeatureVersionError or CorruptCheckpointError, each of which says what
        to do. Nothing in a checkpoint is unpickled.
        """
        return cls(load_checkpoint(path, feature_version=FEATURE_VERSION), hardware)

    def save(self, path: str) -> None:
        """Not possible: the model is frozen, so there is nothing that its checkpoint does not hold."""
        raise NotImplementedError(f"save({path!r}): copy the checkpoint {self.checkpoint.path} instead")

    def update(
        self,
        context: ms.TuneContext,
        candidates: Sequence[ms.MeasureCandidate],
        results: Sequence[ms.runner.RunnerResult],
    ) -> None:
        """Does nothing: the search validates the model's choices, it does not train it."""

    def predict(
        self, context: ms.TuneContext, candidates: Sequence[ms.MeasureCandidate]
    ) -> NDArray[np.float64]:
        """Predicted scores, float64 [n]; higher is faster, near 1 for the best program of the task."""
        if not len(candidates):
            return np.zeros(0)
        # A search comes back to a fifth of its programs, and what it proposes in the end was scored before.
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
