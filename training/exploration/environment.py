"""Environment of the search: programs of a task as states, which a frozen draft model judges.

Nothing is replayed, lowered or measured: a state takes microseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from ...compiler.structure import DRAFT_VERSION
from ...compiler.structure.space import Choices, SketchSpace
from ...compiler.structure.structure import TaskStructure
from ...dataset.features.draft_vector import DraftFeaturizer, moved_bytes
from ...dataset.features.moves import AdjacentMoves
from ...dataset.features.roofline import intensity_ratio
from ...dataset.features.table import FeatureTable, draft_table
from ...dataset.features.vectors import TASK_DIM
from ...dataset.hardware import Hardware
from ...models.architectures.cost_model import Predictor
from ...models.checkpoints.checkpoint import Checkpoint, load_checkpoint

_LEAST_SCORE = 1e-6


@dataclass(frozen=True)
class Observation:
    """The environment's view of n programs."""

    vectors: NDArray[np.float32]  # [n, TASK_DIM + DRAFT_DIM]
    hardware: NDArray[np.float32]  # [n, HARDWARE_DIM]
    time: NDArray[np.float64]  # [n], logarithm of the latency relative to the task's fastest program
    ratio: NDArray[np.float64]  # [n], CS / MS
    legal: NDArray[np.bool_]  # [n, actions]

    def take(self, rows: NDArray[np.int64]) -> Observation:
        """The given programs, in the order of `rows`."""
        return Observation(*(getattr(self, field.name)[rows] for field in fields(self)))

    def states(self, progress: float) -> FeatureTable:
        """States of the action-value network; `progress` in [0, 1] is how far the walk has come."""
        column = np.full((len(self.vectors), 1), progress, dtype=np.float32)
        return draft_table(np.concatenate([self.vectors, column], axis=1), self.hardware)


class TaskSpace:
    """One sketch of a task on one device: its programs, their moves and their draft vectors."""

    def __init__(
        self,
        space: SketchSpace,
        structure: TaskStructure,
        task: NDArray[np.float32],
        hardware: Hardware,
        within: SketchSpace | None = None,
    ) -> None:
        """`task` is the task vector, float32 [TASK_DIM]; `within` limits the moves, see AdjacentMoves."""
        self.space = space
        self.moves = AdjacentMoves(space, within)
        self._within = within
        self.device = hardware.features()
        self._featurizer = DraftFeaturizer(space.sketch, structure, hardware)
        self._task = task

    def vectors(self, choices: Choices) -> NDArray[np.float32]:
        """Task and draft vectors of programs, float32 [n, TASK_DIM + DRAFT_DIM]."""
        tasks = np.broadcast_to(self._task, (len(choices), len(self._task)))
        return np.concatenate([tasks, self._featurizer(self.space.values(choices))], axis=1)

    def draw(self, count: int, rng: np.random.Generator) -> Choices:
        """Programs with all decisions drawn at random within the limits, int32 [count, n_decisions]."""
        drawn = self._within or self.space
        values = drawn.values(drawn.sample(count, rng))
        return self.space.canonical(self.space.choices(values))

    def move(self, choices: Choices, actions: NDArray[np.int64]) -> Choices:
        """Programs after one action each, with the compute locations that TVM will choose."""
        return self.space.canonical(self.moves.apply(choices, actions))


class Environment:
    """Judges programs of any task by a frozen draft model."""

    def __init__(self, predictor: Predictor) -> None:
        """`predictor` is of a draft checkpoint whose target is relative to the task's fastest program."""
        self._predictor = predictor

    @classmethod
    def load(cls, path_or_name: str) -> tuple[Environment, Checkpoint]:
        """The environment of a draft checkpoint, and the checkpoint.

        Raises as `load_checkpoint` does, and TargetError for a target that is not relative.
        """
        checkpoint = load_checkpoint(path_or_name, feature_version=DRAFT_VERSION)
        checkpoint.card.target.require_relative()
        return cls(checkpoint.predictor), checkpoint

    def observe(self, spaces: Sequence[TaskSpace], choices: Sequence[Choices]) -> Observation:
        """Programs of several spaces, rated together, in the order of the spaces."""
        vectors = np.concatenate([space.vectors(rows) for space, rows in zip(spaces, choices, strict=True)])
        devices = [np.tile(space.device, (len(rows), 1)) for space, rows in zip(spaces, choices, strict=True)]
        hardware = np.concatenate(devices)
        prediction = self._predictor.predict_all(draft_table(vectors, hardware).batch())
        if prediction.core is not None and prediction.memory is not None:
            ratio = prediction.core.astype(np.float64) / prediction.memory
        else:  # by the traffic that the tile sizes cause, in closed form
            ratio = intensity_ratio(vectors, hardware, moved_bytes(vectors[:, TASK_DIM:]))
        return Observation(
            vectors,
            hardware,
            -np.log(np.maximum(prediction.score.astype(np.float64), _LEAST_SCORE)),
            ratio,
            np.concatenate([space.moves.legal(rows) for space, rows in zip(spaces, choices, strict=True)]),
        )
