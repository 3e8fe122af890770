"""`DraftModel`: checkpoint of draft features that rates candidates by their decisions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ....compiler.structure import DRAFT_VERSION
from ....compiler.structure.nest import Nest
from ....compiler.structure.sketch import Sketch
from ....compiler.structure.structure import TaskStructure
from ....compiler.tvm_compat import available_cores
from ....dataset.features.draft_vector import DraftFeaturizer
from ....dataset.features.table import draft_table
from ....dataset.hardware import Hardware
from ....dataset.hardware.target_hardware import host_hardware
from ....models.architectures.cost_model import Predictor
from ....models.checkpoints.checkpoint import Checkpoint, load_checkpoint
from ...surrogate.embedding import embeddings_of
from .config import DraftingConfig

_CHUNK = 4096  # candidates per pass through the network

LIVE_FRACTION_EXPONENT = 4.0
"""Exponent of `Nest.live_fraction`, which divides a score; models do not see the live fraction. The surrogate
trusts a quarter of the log-scores (`residual.TRUST`). The live fraction is counted exactly; this exponent
restores its full effect."""


class DraftModel:
    """Frozen draft model for one device. It serves any number of tasks."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        hardware: Hardware | None = None,
        lcb_coefficient: float = DraftingConfig.lcb_coefficient,
    ) -> None:
        """`hardware` is the target device; None means this machine's CPU with all its cores.

        If the model predicts a standard deviation, a score is the lower confidence bound of the output: the
        mean minus `lcb_coefficient` standard deviations. A search over thousands of candidates converges on
        candidates that the model overrates. Ensemble members rarely agree on these.
        """
        self.checkpoint = checkpoint
        self.lcb_coefficient = lcb_coefficient
        self.hardware = hardware or host_hardware(available_cores())
        self._predictor = replace(checkpoint.predictor, chunk=_CHUNK)

    @classmethod
    def load(
        cls,
        path: str | Path,
        hardware: Hardware | None = None,
        lcb_coefficient: float = DraftingConfig.lcb_coefficient,
    ) -> DraftModel:
        """Loads a checkpoint from a directory, or a checkpoint shipped with foretune by its name.

        Raises CheckpointNotFoundError, FeatureVersionError (for example, for a model of replayed programs) or
        CorruptCheckpointError.
        """
        return cls(load_checkpoint(path, feature_version=DRAFT_VERSION), hardware, lcb_coefficient)

    def rater(self, sketch: Sketch, structure: TaskStructure, task: NDArray[np.float32]) -> Rater:
        """Rater of candidates of a sketch; `task` is the task vector of `features.task`."""
        featurizer = DraftFeaturizer(sketch, structure, self.hardware)
        return Rater(self._predictor, featurizer, task, self.hardware.features(), self.lcb_coefficient)


class Rater:
    """Rates candidates of one sketch by their values, int64 [n, width]. A higher score is faster."""

    def __init__(
        self,
        predictor: Predictor,
        featurizer: DraftFeaturizer,
        task: NDArray[np.float32],
        device: NDArray[np.float32],
        lcb_coefficient: float,
    ) -> None:
        self._predictor = predictor
        self._featurizer = featurizer
        self._task = task
        self._device = device
        self._lcb_coefficient = lcb_coefficient

    def __call__(self, values: NDArray[np.int64]) -> NDArray[np.float32]:
        """Predicted scores, float32 [n]."""
        return self._scores(self.vectors(values), self._nest(values))

    def with_embeddings(self, values: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Predicted scores, float32 [n], and embeddings, float32 [n, EMBEDDING_DIM]."""
        vectors, nest = self.vectors(values), self._nest(values)
        return self._scores(vectors, nest), embeddings_of(vectors[:, len(self._task) :], nest)

    def _nest(self, values: NDArray[np.int64]) -> Nest:
        return Nest.of(self._featurizer.sketch, values)

    def vectors(self, values: NDArray[np.int64]) -> NDArray[np.float32]:
        """Input of the model, float32 [n, TASK_DIM + DRAFT_DIM]."""
        tasks = np.broadcast_to(self._task, (len(values), len(self._task)))
        return np.concatenate([tasks, self._featurizer(values)], axis=1)

    def _scores(self, vectors: NDArray[np.float32], nest: Nest) -> NDArray[np.float32]:
        table = draft_table(vectors, np.broadcast_to(self._device, (len(vectors), len(self._device))))
        prediction = self._predictor.predict_all(table.batch())
        score = prediction.score
        if prediction.std is not None:
            cautious = prediction.output - np.float32(self._lcb_coefficient) * prediction.std
            score = self._predictor.target.decode(cautious)
        return score / nest.live_fraction() ** np.float32(LIVE_FRACTION_EXPONENT)
