"""The card that travels with a checkpoint's weights: what they expect, and how good they are."""

from __future__ import annotations

import json
import math
import platform
import re
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from .. import __version__
from ..dataset.features.table import LabelledFeatures
from .normaliser import Normaliser
from .registry import MemberConfig, ModelConfig
from .target import TargetConfig

SCHEMA_VERSION = 4
"""Raised with each field that an older version of foretune must not overlook: it would serve wrong scores."""
READABLE_SCHEMAS = (1, 2, 3, 4)


@dataclass(frozen=True)
class DataSummary:
    """The dataset that a checkpoint was trained on; counts are of the training part."""

    sha256: str
    records: int
    tasks: int
    hardware_ids: list[str]
    operators: list[str]


@dataclass(frozen=True)
class SplitSummary:
    """How the dataset was split, the hashes of the tasks of each part, and the shapes of those seen.

    With these an evaluation on any dataset can leave out what the model has seen, be it fused with something
    else. Cards of schema 1 and 2 have no shapes: they tell tasks by their hashes alone.
    """

    config: dict[str, Any]
    train_tasks: list[str]
    validation_tasks: list[str]
    test_tasks: list[str]
    seen_shapes: list[str] = field(default_factory=list)

    @property
    def seen_tasks(self) -> list[str]:
        """Hashes of the tasks that shaped the weights, by training or by the choice of an epoch."""
        return [*self.train_tasks, *self.validation_tasks]

    def saw(self, data: LabelledFeatures) -> NDArray[np.bool_]:
        """Rows of a dataset, as a mask, whose task or another of its shape shaped the weights."""
        return np.isin(data.workload_hash, self.seen_tasks) | np.isin(data.shape, self.seen_shapes)

    def seen_in(self, data: LabelledFeatures) -> list[str]:
        """Hashes of the tasks of a dataset that it saw."""
        return [str(task) for task in np.unique(data.workload_hash[self.saw(data)])]

    def tasks(self, part: str) -> list[str]:
        """Hashes of "train", "validation" or "test"."""
        tasks: list[str] = getattr(self, f"{part}_tasks")
        return tasks


@dataclass(frozen=True)
class Provenance:
    """Which code made the checkpoint, and when (UTC)."""

    foretune: str
    torch: str
    python: str
    git_revision: str | None
    created_at: str

    @classmethod
    def of_this_process(cls) -> Provenance:
        """Reads the versions in use."""
        return cls(
            foretune=__version__,
            torch=torch.__version__,
            python=platform.python_version(),
            git_revision=git_revision(),
            created_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        )


@dataclass(frozen=True)
class Card:
    """Everything of a checkpoint but its weights."""

    feature_version: str
    model: ModelConfig
    target: TargetConfig
    normaliser: Normaliser
    data: DataSummary
    split: SplitSummary
    metrics: dict[str, dict[str, float | None]]  # part of the split -> name -> value, None for undefined
    seed: int
    training: dict[str, Any] = field(default_factory=dict)  # loss, optimiser and length of the training
    std_scale: float = 1.0  # see Predictor; from schema 2 on, as is the next
    std_floor: float = 0.0
    provenance: Provenance = field(default_factory=Provenance.of_this_process)
    weights_sha256: str = ""
    schema_version: int = SCHEMA_VERSION

    def with_weights(self, sha256: str) -> Card:
        """The card of these weights."""
        return replace(self, weights_sha256=sha256)

    def to_json(self) -> str:
        """JSON text; values that are not finite become null, lists of plain values take one line."""
        values = {
            name: getattr(self, name)
            for name in (
                "schema_version",
                "feature_version",
                "weights_sha256",
                "seed",
                "metrics",
                "training",
                "std_scale",
                "std_floor",
            )
        }
        for name in ("model", "target", "data", "split", "provenance"):
            values[name] = asdict(getattr(self, name))
        values["dims"] = asdict(self.normaliser.dims)
        values["normaliser"] = self.normaliser.to_json()
        text = json.dumps(_finite(values), indent=2, allow_nan=False)
        return re.sub(r"\[\n\s+([^\[\]{}]*?)\n\s+\]", _on_one_line, text) + "\n"

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Card:
        """Inverse of `to_json` on parsed JSON; raises KeyError, TypeError or ValueError for other content."""
        card = cls(
            feature_version=str(values["feature_version"]),
            model=_model(values["model"]),
            target=TargetConfig(**values["target"]),
            normaliser=Normaliser.from_json(values["normaliser"]),
            data=DataSummary(**values["data"]),
            split=SplitSummary(**values["split"]),
            metrics=dict(values["metrics"]),
            seed=int(values["seed"]),
            training=dict(values["training"]),
            std_scale=float(values.get("std_scale", 1.0)),
            std_floor=float(values.get("std_floor", 0.0)),
            provenance=Provenance(**values["provenance"]),
            weights_sha256=str(values["weights_sha256"]),
            schema_version=int(values["schema_version"]),
        )
        if values["dims"] != asdict(card.normaliser.dims):
            raise ValueError(f"dims {values['dims']} differ from the normaliser's {card.normaliser.dims}")
        return card


def _model(values: Mapping[str, Any]) -> ModelConfig:
    beside = [MemberConfig(**kind) for kind in values.get("beside", [])]  # from schema 4 on
    return ModelConfig(**{**values, "beside": beside})


def git_revision() -> str | None:
    """Commit of the checkout that foretune runs from, with "+changes" where files differ from it.

    None for an installed wheel, also when that lies inside some other repository.
    """
    root = Path(__file__).resolve().parents[1]
    if not (root / ".git").exists():
        return None
    try:
        commit, status = (
            subprocess.run(
                ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True, timeout=10
            ).stdout.strip()
            for arguments in (("rev-parse", "HEAD"), ("status", "--porcelain", "--untracked-files=no"))
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return f"{commit}+changes" if status else commit


def _finite(value: Any) -> Any:
    """Replaces NaN and infinities by None, which JSON can hold."""
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _on_one_line(match: re.Match[str]) -> str:
    return "[" + re.sub(r"\n\s+", " ", match.group(1)) + "]"
