"""Card of a trained model, and the hash of its dataset."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from ...dataset.features.table import LabelledFeatures
from ...dataset.records.split import SplitConfig
from ...models.architectures.registry import ModelConfig
from ...models.checkpoints.card import Card, DataSummary, SplitSummary
from ...models.checkpoints.checkpoint import Checkpoint
from ...models.scaling.target import TargetConfig
from .datamodule import CostModelData
from .outcome import Outcome

SPLIT_PARTS = ("train", "validation", "test")


@dataclass(frozen=True)
class CardFacts:
    """Settings and effort of a training that its card states.

    `training` contains the settings of data, loss, optimiser and trainer, and the effort, as JSON values.
    """

    feature_version: str
    model: ModelConfig
    target: TargetConfig
    split: SplitConfig
    seed: int
    training: dict[str, Any]


def run_card(facts: CardFacts, records: CostModelData, outcome: Outcome, before: Checkpoint | None) -> Card:
    """Card of a model trained on `records`, starting from the checkpoint `before` if given."""
    data, train = records.data, records.train.rows
    tasks = {
        part: [str(task) for task in np.unique(data.workload_hash[records.split.part(part)])]
        for part in SPLIT_PARTS
    }
    seen_shapes = np.unique(data.shape[np.concatenate([records.split.train, records.split.validation])])
    return Card(
        feature_version=facts.feature_version,
        model=facts.model,
        target=facts.target,
        normaliser=records.normaliser,
        data=DataSummary(
            sha256=data_sha256(data),
            records=len(train),
            tasks=len(np.unique(data.workload_hash[train])),
            hardware_ids=[str(name) for name in np.unique(data.hardware_id[train])],
            operators=[str(name) for name in np.unique(data.operator[train])],
        ),
        split=SplitSummary(
            asdict(facts.split),
            sorted({*tasks["train"], *(before.card.split.seen_tasks if before else ())}),
            tasks["validation"],
            tasks["test"],
            sorted({*seen_shapes.tolist(), *(before.card.split.seen_shapes if before else ())}),
        ),
        metrics=outcome.figures,
        seed=facts.seed,
        training=facts.training,
        std_scale=outcome.predictor.std_scale,
        std_floor=outcome.predictor.std_floor,
    )


def data_sha256(data: LabelledFeatures) -> str:
    """Hash of the features and labels of a dataset, in the order of its rows."""
    digest = hashlib.sha256()
    for container in (data.features, data):
        for f in fields(container):
            array = getattr(container, f.name)
            if isinstance(array, np.ndarray):
                digest.update(f"{f.name} {array.dtype.kind} {array.shape}".encode())
                content = array if array.dtype.kind != "U" else np.char.encode(array, "utf-8")
                digest.update(np.ascontiguousarray(content).tobytes())
    return digest.hexdigest()
