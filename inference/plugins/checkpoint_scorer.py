"""Pretrained checkpoint as the scorer of `foretune generate` (EBS, One-Shot Tuner section 4.1.2).

The checkpoint stays frozen. The measurements of a task correct it through a Gaussian process over the
residuals, as in a search. Each task begins with the checkpoint alone. Tasks may therefore be generated in any
order, and a continued run learns again from the records of its task.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial

from tvm.s_tir import meta_schedule as ms

from ...compiler.task import Task
from ...dataset.features import FEATURE_VERSION
from ...dataset.hardware import Hardware
from ...models.checkpoints.checkpoint import Checkpoint, load_checkpoint
from ..search.cost_model import PretrainedCostModel
from ..search.scoring import CorrectedCostModel
from ..surrogate.embedding import CandidateEmbedder
from ..surrogate.shared import Surrogates


def load(name: str) -> Callable[[Task, Hardware], ms.CostModel]:
    """Scorers of tasks from a checkpoint, given the name of a shipped one or a folder.

    Raises CheckpointNotFoundError, FeatureVersionError or CorruptCheckpointError.
    """
    return partial(_scorer_of_task, _checkpoint(name))


def _scorer_of_task(checkpoint: Checkpoint, task: Task, hardware: Hardware) -> ms.CostModel:
    frozen = PretrainedCostModel(checkpoint, hardware)
    surrogate = Surrogates().of(task.workload_hash)
    return CorrectedCostModel(frozen, CandidateEmbedder(task.mod, hardware), surrogate)


@lru_cache(maxsize=2)  # the tasks of a run share the weights
def _checkpoint(name: str) -> Checkpoint:
    return load_checkpoint(name, feature_version=FEATURE_VERSION)
