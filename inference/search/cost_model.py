"""Frozen cost models for a stock MetaSchedule search, with or without a checkpoint."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tvm_ffi
from numpy.typing import NDArray
from tvm import IRModule
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from ...compiler.replay import candidate_trace_json
from ...compiler.tvm_compat import available_cores, load_tensor_intrinsics, target_to_json
from ...dataset.features import FEATURE_VERSION
from ...dataset.hardware import Hardware
from ...dataset.hardware.target_hardware import host_hardware
from ...dataset.records.exchange import HERE, find_hardware
from ...models.checkpoints.checkpoint import Checkpoint, load_checkpoint, refuse_to_overwrite
from ..run.profiling import StageClock
from .checkpoint_fit import CheckpointFitError, misfit
from .scoring import ProgramScorer

_SCORES_KEPT = 100_000


class _LoadMethod(classmethod):
    """`load` of a class makes an object, and `load` of an object changes it, as in MetaSchedule.

    `derived_object` copies only class methods to the class that users see.
    """

    def __get__(self, instance: Any, owner: type | None = None) -> Callable[..., Any]:
        if instance is None:
            return super().__get__(None, owner)
        found: Callable[..., Any] = instance.replace_checkpoint
        return found


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
    has no state per task. One object can therefore serve any number of tasks and targets sequentially. A
    program without features has the score NEUTRAL_SCORE; see `ProgramScorer`.
    """

    def __init__(self, checkpoint: Checkpoint, hardware: Hardware | None = None) -> None:
        """`hardware` is the device to tune for.

        None means this machine: its CPU as the code of each target uses it (cores, vector registers), or its
        GPU.
        """
        super().__init__()
        load_tensor_intrinsics()  # every tuning run needs them; TVM's own import lasts half a minute
        self.checkpoint = checkpoint
        self._hardware = hardware
        self.candidates_scored = 0
        """Number of scored programs. A program that a search visits repeatedly counts once."""
        self.clock = StageClock()
        """Seconds spent on features and on prediction."""
        self._scorers: dict[str, ProgramScorer] = {}
        self._scores: dict[_Program, float] = {}

    @_LoadMethod  # type: ignore[arg-type]  # MyPy knows a class method by its name alone
    def load(cls, path: str | Path, hardware: Hardware | None = None) -> Any:
        """Loads a checkpoint directory, or a shipped checkpoint by its name.

        `PretrainedCostModel.load(path, hardware)` returns a model. `model.load(path)` replaces the checkpoint
        of a model and returns None.

        Raises CheckpointNotFoundError, FeatureVersionError or CorruptCheckpointError. Loading a checkpoint
        never unpickles anything.
        """
        return cls(load_checkpoint(path, feature_version=FEATURE_VERSION), hardware)

    def replace_checkpoint(self, path: str | Path) -> None:
        """Same as `load` of an object."""
        self.checkpoint = load_checkpoint(path, feature_version=FEATURE_VERSION)
        self._scorers.clear()
        self._scores.clear()

    def save(self, path: str | Path) -> None:
        """Copies the checkpoint to a new directory; raises CheckpointExistsError if it exists."""
        refuse_to_overwrite(Path(path))
        shutil.copytree(self.checkpoint.path, path)

    @property
    def hardware(self) -> Hardware:
        """The device to tune for, or this machine's CPU with all its cores."""
        return self._hardware or host_hardware(available_cores())

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
        """Predicted scores, float64 [n]; higher is faster, near 1 for the best program of the task.

        Raises CheckpointFitError for a target of another kind of device than the checkpoint knows, and
        NoCudaDeviceError for a CUDA target without `hardware` on a machine without a GPU.
        """
        if not len(candidates):
            return np.zeros(0)
        # A search visits a fifth of its programs again, and its proposals were scored before.
        target = target_to_json(context.target)
        programs = [_Program.of(context, target, candidate) for candidate in candidates]
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
            if target not in self._scorers:
                self._scorers[target] = self._scorer(context.target)
            predicted = self._scorers[target](context, list(new.values()))
            self._scores |= dict(zip(new, predicted.tolist(), strict=True))
        return np.array([self._scores[program] for program in programs], dtype=np.float64)

    def _scorer(self, target: Target) -> ProgramScorer:
        if reason := misfit(self.checkpoint.card, target):
            raise CheckpointFitError(
                f"checkpoint {self.checkpoint.path}: {reason}, and target={target.kind.name} is another kind "
                "of device; load a checkpoint for it, or use another cost model"
            )
        hardware = self._hardware or find_hardware(HERE, target)
        return ProgramScorer(self.checkpoint.predictor, hardware, self.clock)


class _Program(NamedTuple):
    """All that the score of a program depends on."""

    task: IRModule
    """Unscheduled module. Equal keys are the same TVM object: the hash of a module ignores names, and TVM
    orders some features by the names of buffers."""
    target: str
    program: int
    """Structural hash of the scheduled module."""
    decisions: bytes
    """Hash of the trace. Several traces may give one program."""

    @classmethod
    def of(cls, context: ms.TuneContext, target: str, candidate: ms.MeasureCandidate) -> _Program:
        trace = blake2b(candidate_trace_json(candidate).encode(), digest_size=16).digest()
        return cls(context.mod, target, tvm_ffi.structural_hash(candidate.sch.mod), trace)


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
        self._hardware = hardware
        self.candidates_scored = 0
        """Always 0: no program is rated."""
        self.clock = StageClock()
        """Stages of the search that uses the model. The model itself adds no time."""

    @property
    def hardware(self) -> Hardware:
        """See PretrainedCostModel."""
        return self._hardware or host_hardware(available_cores())

    def load(self, path: str) -> None:
        """Does nothing: the model has no state."""

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
