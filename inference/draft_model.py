"""`DraftModel`: a checkpoint of draft features that rates candidates by their decisions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..dataset.drafting import DRAFT_VERSION
from ..dataset.drafting.dataset import draft_table
from ..dataset.drafting.features import DraftFeaturizer
from ..dataset.drafting.nest import Nest
from ..dataset.drafting.sketch import Sketch
from ..dataset.drafting.structure import TaskStructure
from ..dataset.hardware import Hardware, probe_cpu
from ..dataset.tvm_compat import available_cores
from ..models.checkpoint import Checkpoint, load_checkpoint
from ..models.cost_model import Predictor
from .likeness import places_of
from .search_config import DraftingConfig, OneShotConfig

_CHUNK = 4096  # candidates at a time through the network

LEFT_OUT = 4.0
"""A score is divided by `Nest.left_by_guards`, which no model sees, to this power. A search believes a
quarter of what the logs of scores say (`residual.TRUST`), but what is counted, it believes in full."""


class DraftModel:
    """A frozen draft model for one device; serves any number of tasks."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        hardware: Hardware | None = None,
        caution: float = DraftingConfig.caution,
    ) -> None:
        """`hardware` is the device that is tuned for; None is this machine's CPU with all its cores.

        Outputs are lowered by `caution` standard deviations, where the model tells them: a search through
        thousands of candidates ends at those that a model overrates, which its members seldom agree on.
        """
        self.checkpoint = checkpoint
        self.caution = caution
        self.hardware = hardware or probe_cpu(available_cores())
        self._predictor = replace(checkpoint.predictor, chunk=_CHUNK)

    @classmethod
    def load(
        cls, path: str | Path, hardware: Hardware | None = None, caution: float = DraftingConfig.caution
    ) -> DraftModel:
        """Loads a checkpoint directory or one that comes with foretune by its name.

        Raises CheckpointNotFoundError, FeatureVersionError (as for a model of replayed programs) or
        CorruptCheckpointError.
        """
        return cls(load_checkpoint(path, feature_version=DRAFT_VERSION), hardware, caution)

    def rater(self, sketch: Sketch, structure: TaskStructure, task: NDArray[np.float32]) -> Rater:
        """Rates candidates of a sketch; `task` is the task vector of `features.task`."""
        featurizer = DraftFeaturizer(sketch, structure, self.hardware)
        return Rater(self._predictor, featurizer, task, self.hardware.features(), self.caution)


class Rater:
    """Rates candidates of one sketch by their values, int64 [n, width]; higher is faster."""

    def __init__(
        self,
        predictor: Predictor,
        featurizer: DraftFeaturizer,
        task: NDArray[np.float32],
        device: NDArray[np.float32],
        caution: float,
    ) -> None:
        self._predictor = predictor
        self._featurizer = featurizer
        self._task = task
        self._device = device
        self._caution = caution

    def __call__(self, values: NDArray[np.int64]) -> NDArray[np.float32]:
        """Predicted scores, float32 [n]."""
        return self._scores(self.vectors(values), self._nest(values))

    def with_places(self, values: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Predicted scores, float32 [n], and places, float32 [n, PLACE_DIM]: see `Likeness`."""
        vectors, nest = self.vectors(values), self._nest(values)
        return self._scores(vectors, nest), places_of(vectors[:, len(self._task) :], nest)

    def _nest(self, values: NDArray[np.int64]) -> Nest:
        return Nest.of(self._featurizer.sketch, values)

    def vectors(self, values: NDArray[np.int64]) -> NDArray[np.float32]:
        """What the model reads, float32 [n, TASK_DIM + DRAFT_DIM]."""
        tasks = np.broadcast_to(self._task, (len(values), len(self._task)))
        return np.concatenate([tasks, self._featurizer(values)], axis=1)

    def _scores(self, vectors: NDArray[np.float32], nest: Nest) -> NDArray[np.float32]:
        table = draft_table(vectors, np.broadcast_to(self._device, (len(vectors), len(self._device))))
        prediction = self._predictor.predict_all(table.batch())
        score = prediction.score
        if prediction.std is not None:
            cautious = prediction.output - np.float32(self._caution) * prediction.std
            score = self._predictor.target.decode(cautious)
        return score / nest.left_by_guards() ** np.float32(LEFT_OUT)


def drafting_model(config: OneShotConfig, hardware: Hardware | None) -> DraftModel | None:
    """The model that `config` drafts with, None for another strategy; its checkpoint is a name or folder.

    Raises as `DraftModel.load` does.
    """
    checkpoint = config.draft.checkpoint if config.strategy == "draft" else None
    return None if checkpoint is None else DraftModel.load(checkpoint, hardware, config.draft.caution)
