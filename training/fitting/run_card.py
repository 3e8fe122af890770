"""Card of a trained model, and the hash of its dataset."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, fields

import numpy as np

from ...dataset.features.table import LabelledFeatures
from ...dataset.records.measuring_time import measuring_s
from ...models.checkpoints.card import Card, DataSummary, SplitSummary
from ...models.checkpoints.checkpoint import Checkpoint
from .config import TrainConfig
from .datamodule import CostModelData
from .outcome import Outcome

SPLIT_PARTS = ("train", "validation", "test")


def run_card(
    config: TrainConfig,
    records: CostModelData,
    outcome: Outcome,
    feature_version: str,
    epochs: int,
    seconds: float,
    before: Checkpoint | None,
) -> Card:
    """Card of a model trained on `records`, starting from the checkpoint `before` if given."""
    data, train = records.data, records.train.rows
    tasks = {
        part: [str(task) for task in np.unique(data.workload_hash[records.split.part(part)])]
        for part in SPLIT_PARTS
    }
    seen_shapes = np.unique(data.shape[np.concatenate([records.split.train, records.split.validation])])
    return Card(
        feature_version=feature_version,
        model=config.model,
        target=config.target,
        normaliser=records.normaliser,
        data=DataSummary(
            sha256=data_sha256(data),
            records=len(train),
            tasks=len(np.unique(data.workload_hash[train])),
            hardware_ids=[str(name) for name in np.unique(data.hardware_id[train])],
            operators=[str(name) for name in np.unique(data.operator[train])],
        ),
        split=SplitSummary(
            asdict(config.split),
            sorted({*tasks["train"], *(before.card.split.seen_tasks if before else ())}),
            tasks["validation"],
            tasks["test"],
            sorted({*seen_shapes.tolist(), *(before.card.split.seen_shapes if before else ())}),
        ),
        metrics=outcome.figures,
        seed=config.seed,
        training={
            **{name: asdict(getattr(config, name)) for name in ("data", "loss", "optimiser", "trainer")},
            "start_from": before.card.weights_sha256 if before else None,
            "train_only": config.train_only,
            "notes": config.notes,
            "epochs": epochs,
            "seconds": round(seconds, 1),
            "measuring_s": round(measuring_s(config.dataset), 1),
        },
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
