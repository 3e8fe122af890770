"""Small trainings of cost models."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from foretune.models.architectures.registry import ModelConfig
from foretune.training.fitting.config import TrainConfig, TrainerConfig
from foretune.training.fitting.datamodule import DataConfig

TRANSFORMER = ModelConfig("transformer", {"width": 32, "layers": 1, "heads": 2, "feedforward": 64})


def settings(folder, epochs=3, **changes):
    """Settings of a training of seconds that writes below `folder`."""
    return TrainConfig(
        dataset=Path("unused"),
        run_dir=folder / "run",
        checkpoint_dir=folder / "checkpoint",
        **{
            "model": TRANSFORMER,
            "data": DataConfig(batch_size=64, rivals=8),
            "trainer": TrainerConfig(max_epochs=epochs, progress_bar=False),
            **changes,
        },
    )


def with_latency(data, latency_s):
    """Copy of a feature table with other latencies, seconds [records]."""
    return replace(data, latency_s=np.array(latency_s, dtype=np.float64))
