"""`DraftModel`: a checkpoint of draft features that rates candidates by their decisions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..dataset.drafting import DRAFT_VERSION
from ..dataset.drafting.dataset import draft_table
from ..dataset.drafting.features import DraftFeaturizer
from ..dataset.drafting.sketch import Sketch
from ..dataset.drafting.structure import TaskStructure
from ..dataset.hardware import Hardware, probe_cpu
from ..dataset.tvm_compat import available_cores
from ..models.checkpoint import Checkpoint, load_checkpoint
from .search_config import OneShotConfig

Rater: TypeAlias = Callable[[NDArray[np.int64]], NDArray[np.float32]]
"""Values of candidates of one sketch, int64 [n, width], to predicted scores float32 [n], higher is faster."""

_CHUNK = 4096  # candidates at a time through the network


class DraftModel:
    """A frozen draft model for one device; serves any number of tasks."""

    def __init__(self, checkpoint: Checkpoint, hardware: Hardware | None = None) -> None:
        """`hardware` is the device that is tuned for; None is this machine's CPU with all its cores."""
        self.checkpoint = checkpoint
        self.hardware = hardware or probe_cpu(available_cores())
        self._predictor = replace(checkpoint.predictor, chunk=_CHUNK)

    @classmethod
    def load(cls, path: str | Path, hardware: Hardware | None = None) -> DraftModel:
        """Loads a checkpoint directory or one that comes with foretune by its name.

        Raises CheckpointNotFoundError, FeatureVersionError (as for a model of replayed programs) or
        CorruptCheckpointError.
        """
        return cls(load_checkpoint(path, feature_version=DRAFT_VERSION), hardware)

    def rater(self, sketch: Sketch, structure: TaskStructure, task: NDArray[np.float32]) -> Rater:
        """Rates candidates of a sketch; `task` is the task vector of `features.task`."""
        featurizer = DraftFeaturizer(sketch, structure, self.hardware)
        device = self.hardware.features()

        def rate(values: NDArray[np.int64]) -> NDArray[np.float32]:
            n = len(values)
            vectors = np.concatenate([np.broadcast_to(task, (n, len(task))), featurizer(values)], axis=1)
            table = draft_table(vectors, np.broadcast_to(device, (n, len(device))))
            return self._predictor.predict(table.batch())

        return rate


def drafting_model(config: OneShotConfig, hardware: Hardware | None) -> DraftModel | None:
    """The model that `config` drafts with, None for another strategy; its checkpoint is a name or folder.

    Raises as `DraftModel.load` does.
    """
    checkpoint = config.draft.checkpoint if config.strategy == "draft" else None
    return None if checkpoint is None else DraftModel.load(checkpoint, hardware)
