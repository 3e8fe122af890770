"""Latencies that a cost model predicts for random programs; the device need not be present."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tvm.target import Target

from ....compiler.replay import candidate_trace_json
from ....compiler.task import Task
from ....dataset.hardware import Hardware
from ....errors import UserError
from ....models.checkpoints.checkpoint import Checkpoint
from ...inspection.predicted import LatencyPredictor, latency_checkpoint
from .latencies import PREDICTED, Latency, LatencySource, OnProgress, TaskPrograms


class NoLatencyModelError(UserError, ValueError):
    """No checkpoint predicts latencies for the target."""


def required_checkpoint(name: str | None, target: Target) -> Checkpoint:
    """The checkpoint that predicts latencies. Raises NoLatencyModelError, else as `latency_checkpoint`."""
    found = latency_checkpoint(name, target)
    if found is None:
        raise NoLatencyModelError(
            f"predict=true checkpoint={name}: no cost model predicts latencies for {target.kind.name} "
            "targets; give one that foretune train made with target=log_latency in checkpoint=, or "
            "predict=false on the device"
        )
    return found


class PredictedLatencies(LatencySource):
    """Latencies that a cost model predicts; the best latency is the lowest of some random programs."""

    measured = False

    def __init__(
        self, checkpoint: Checkpoint, target: Target, hardware: Hardware, programs: int, seed: int
    ) -> None:
        """`hardware` is the device with measured figures; `programs` is the number drawn for each task."""
        self.checkpoint = checkpoint.path.name
        self._predictor = LatencyPredictor(checkpoint, target, hardware, programs, seed)
        self._fastest: dict[str, list[str]] = {}

    def best(
        self, tasks: Sequence[Task], parents: Mapping[str, Any], on_progress: OnProgress
    ) -> dict[str, Latency]:
        """See LatencySource; parents are ignored, because the programs of all tasks are drawn alike."""
        found = {}
        for number, task in enumerate(tasks, 1):
            on_progress(task.name, number / len(tasks))
            drawn = self._predictor.drawn(task)
            if drawn is None:
                continue
            context, candidates = drawn
            seconds = self._predictor.latencies_s(context, candidates)
            order = np.argsort(seconds, kind="stable")
            self._fastest[task.workload_hash] = [candidate_trace_json(candidates[i]) for i in order]
            found[task.workload_hash] = Latency(float(seconds[order[0]]), PREDICTED)
        return found

    def fastest(self, task: Task, most: int) -> list[str]:
        """See LatencySource."""
        return self._fastest.get(task.workload_hash, [])[:most]

    def turns_s(self, programs: Sequence[TaskPrograms]) -> list[list[list[float]]]:
        """See LatencySource."""
        return [
            [[float(s)] for s in self._predictor.latencies_s(of.context, of.candidates)]
            if of.candidates
            else []
            for of in programs
        ]
