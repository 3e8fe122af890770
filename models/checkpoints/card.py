"""Card of a checkpoint: features, data, split and metrics of its weights."""

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

from ... import __version__
from ...dataset.features.table import LabelledFeatures
from ..architectures.registry import MemberConfig, ModelConfig
from ..scaling.normaliser import Normaliser
from ..scaling.target import TargetConfig

SCHEMA_VERSION = 7
"""Version of the card; raise it with each field that changes scores, so that an older foretune refuses it."""
READABLE_SCHEMAS = (1, 2, 3, 4, 5, 6, 7)


@dataclass(frozen=True)
class DataSummary:
    """Dataset that a checkpoint was trained on; the counts are of the training part."""

    sha256: str
    records: int
    tasks: int
    hardware_ids: list[str]
    operators: list[str]


@dataclass(frozen=True)
class SplitSummary:
    """Split of the dataset: workload hashes of the tasks in each part, and shapes of the seen tasks.

    They let an evaluation on any dataset leave out the tasks that the model has seen, even if the
    layout or the fused epilogue differs (`dataset.records.task_shapes`). Cards of schema 1 and 2 have no
    shapes: a task counts as seen by its hash, or if a seen task of the same dataset has its shape.
    """

    config: dict[str, Any]
    train_tasks: list[str]
    validation_tasks: list[str]
    test_tasks: list[str]
    seen_shapes: list[str] = field(default_factory=list)

    @property
    def seen_tasks(self) -> list[str]:
        """Hashes of the training and validation tasks, which both influenced the weights."""
        return [*self.train_tasks, *self.validation_tasks]

    def saw(self, data: LabelledFeatures) -> NDArray[np.bool_]:
        """Mask [n] of the rows whose task, or another task of its shape, the model has seen."""
        tasks = np.isin(data.workload_hash, self.seen_tasks)
        return tasks | np.isin(data.shape, [*self.seen_shapes, *np.unique(data.shape[tasks])])

    def seen_in(self, data: LabelledFeatures) -> list[str]:
        """Hashes of the tasks of a dataset that the model has seen."""
        return [str(task) for task in np.unique(data.workload_hash[self.saw(data)])]

    def tasks(self, part: str) -> list[str]:
        """Hashes of the tasks in the part "train", "validation" or "test"."""
        tasks: list[str] = getattr(self, f"{part}_tasks")
        return tasks


@dataclass(frozen=True)
class Provenance:
    """Versions of the code that made the checkpoint, and the time in UTC."""

    foretune: str
    torch: str
    python: str
    git_revision: str | None
    created_at: str

    @classmethod
    def of_this_process(cls) -> Provenance:
        """Versions that are in use."""
        return cls(
            foretune=__version__,
            torch=torch.__version__,
            python=platform.python_version(),
            git_revision=git_revision(),
            created_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        )


@dataclass(frozen=True)
class Card:
    """All contents of a checkpoint except its weights."""

    feature_version: str
    model: ModelConfig
    target: TargetConfig
    normaliser: Normaliser
    data: DataSummary
    split: SplitSummary
    metrics: dict[str, dict[str, float | None]]  # part of the split -> name -> value, None if undefined
    seed: int
    training: dict[str, Any] = field(default_factory=dict)  # loss, optimiser and length of the training
    std_scale: float = 1.0  # see Predictor; since schema 2, like the next field
    std_floor: float = 0.0
    provenance: Provenance = field(default_factory=Provenance.of_this_process)
    weights_sha256: str = ""
    schema_version: int = SCHEMA_VERSION

    def with_weights(self, sha256: str) -> Card:
        """Copy of the card with the hash of the weights."""
        return replace(self, weights_sha256=sha256)

    def to_json(self) -> str:
        """JSON text. Non-finite values become null; a list of plain values takes one line."""
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
        schema = int(values["schema_version"])
        card = cls(
            feature_version=str(values["feature_version"]),
            model=_model(values["model"]),
            target=TargetConfig(**values["target"]),
            normaliser=Normaliser.from_json(values["normaliser"], earlier=schema < 5),
            data=DataSummary(**values["data"]),
            split=SplitSummary(**values["split"]),
            metrics=dict(values["metrics"]),
            seed=int(values["seed"]),
            training=dict(values["training"]),
            std_scale=float(values.get("std_scale", 1.0)),
            std_floor=float(values.get("std_floor", 0.0)),
            provenance=Provenance(**values["provenance"]),
            weights_sha256=str(values["weights_sha256"]),
            schema_version=schema,
        )
        if values["dims"] != asdict(card.normaliser.dims):
            raise ValueError(f"dims={values['dims']} differ from the normaliser's {card.normaliser.dims}")
        return card


def _model(values: Mapping[str, Any]) -> ModelConfig:
    beside = [MemberConfig(**kind) for kind in values.get("beside", [])]  # since schema 4
    return ModelConfig(**{**values, "beside": beside})


def git_revision() -> str | None:
    """Commit of the checkout that foretune runs from, with "+changes" if tracked files differ from it.

    None for an installed wheel, even if it is inside another repository.
    """
    root = Path(__file__).resolve().parents[2]
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
    """Copy with None for NaN and infinities, which JSON cannot hold."""
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _on_one_line(match: re.Match[str]) -> str:
    return "[" + re.sub(r"\n\s+", " ", match.group(1)) + "]"
