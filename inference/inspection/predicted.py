"""Latencies that a cost model predicts for tasks, without a search or a measurement."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from ...compiler.targets import is_cpu
from ...compiler.task import Task
from ...compiler.tvm_compat import NoDesignSpaceError, load_cpu_intrinsics
from ...dataset.features import FEATURE_VERSION
from ...dataset.features.assembly import FeatureAssembler
from ...dataset.features.reading import task_reading
from ...dataset.hardware import Hardware
from ...dataset.sampling.programs import RandomSampler, SamplerSetting
from ...models.checkpoints.checkpoint import Checkpoint, load_checkpoint
from ...models.checkpoints.shipped import AUTO, CheckpointUse, shipped_checkpoint


def latency_checkpoint(name: str | None, target: Target) -> Checkpoint | None:
    """Checkpoint for the predictions; AUTO selects the shipped one for the target, if there is one.

    Raises TargetError for a score model, which ranks the programs of a task without giving seconds, and the
    errors of `load_checkpoint`.
    """
    if name == AUTO:
        name = shipped_checkpoint(CheckpointUse.LATENCIES, target.kind.name)
    if name is None:
        return None
    found = load_checkpoint(name, feature_version=FEATURE_VERSION)
    found.predictor.target.require_absolute()
    return found


class LatencyPredictor:
    """Predicts the latency of the best among some randomly drawn programs of a task."""

    def __init__(
        self, checkpoint: Checkpoint, target: Target, hardware: Hardware, programs: int, seed: int
    ) -> None:
        """`hardware` is the device with its measured figures; `programs` is the number drawn per task."""
        if is_cpu(target):
            load_cpu_intrinsics(alone=True)
        self._predictor = checkpoint.predictor
        self._assembler = FeatureAssembler(hardware, counted=self._predictor.normaliser.reads_counts)
        self._target = target
        self._programs = programs
        self._seed = seed

    def best_s(self, task: Task) -> float | None:
        """Shortest predicted latency in seconds; None for a task without a design space or valid programs."""
        drawn = self.drawn(task)
        return None if drawn is None else float(self.latencies_s(*drawn).min())

    def drawn(self, task: Task) -> tuple[ms.TuneContext, list[ms.MeasureCandidate]] | None:
        """Context and drawn programs of a task.

        None for a task without a design space, without valid programs, or without anything to compute.
        """
        if task_reading(task.mod).structure.is_empty:
            return None
        try:
            sampler = RandomSampler(
                SamplerSetting(task, self._target, per_round=self._programs, seed=self._seed)
            )
        except NoDesignSpaceError:
            return None
        drawn = [candidate for _, candidate in sampler.propose()]
        return (sampler.context, drawn) if drawn else None

    def latencies_s(
        self, context: ms.TuneContext, candidates: Sequence[ms.MeasureCandidate]
    ) -> NDArray[np.float64]:
        """Predicted latencies in seconds, float64 [n], for programs of the task of `context`."""
        table = self._assembler.assemble(context, candidates)
        return self._predictor.predict_latency_s(table.batch())
