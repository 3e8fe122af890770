"""Card of a checkpoint: features, data, split and metrics of its weights."""

from __future__ import annotations

import hashlib
import json
import math
import platform
import re
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray

from ... import __version__
from ...dataset.features.table import LabelledFeatures
from ...json_fields import Signed, Span, read_fields, read_value
from ..architectures.registry import ModelConfig
from ..scaling.normaliser import FeatureDims, Normaliser
from ..scaling.target import TargetConfig

CARD_SHA256 = "card_sha256"
"""Field with the hash of all other fields, see `card_hash`; cards of earlier versions lack it."""

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
        finite = _finite(values)
        text = json.dumps({CARD_SHA256: card_hash(finite), **finite}, indent=2, allow_nan=False)
        return re.sub(r"\[\n\s+([^\[\]{}]*?)\n\s+\]", _on_one_line, text) + "\n"

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Card:
        """Inverse of `to_json` on parsed JSON; raises ValueError that names the field for other content."""
        rest = {name: value for name, value in values.items() if name != CARD_SHA256}
        read = read_fields(_CardValues, rest, defaults=True)
        for number, part in enumerate(_combined(read.training)):
            for name, kind in _COMBINED.items():
                read_value(kind, part.get(name), f"training.combined[{number}].{name}")
        normaliser = Normaliser.from_json(read.normaliser, earlier=read.schema_version < 5)
        if read.dims != normaliser.dims:
            raise ValueError(f"dims={values['dims']} differ from the normaliser's {normaliser.dims}")
        if CARD_SHA256 in values and values[CARD_SHA256] != card_hash(rest):
            raise ValueError(f"its other fields do not have the hash that {CARD_SHA256} says")
        known = {name: value for name, value in vars(read).items() if name not in ("dims", "normaliser")}
        return cls(**known, normaliser=normaliser)


@dataclass(frozen=True)
class _CardValues:
    """Fields of card.json with their types and ranges; those with a default are missing in earlier cards."""

    schema_version: int
    feature_version: str
    weights_sha256: str
    seed: int
    metrics: dict[str, dict[str, Signed | None]]
    training: dict[str, Any]
    model: ModelConfig
    target: TargetConfig
    data: DataSummary
    split: SplitSummary
    provenance: Provenance
    dims: FeatureDims
    normaliser: dict[str, Any]
    std_scale: Annotated[float, Span(1e-9, 1e6)] = 1.0
    std_floor: Annotated[float, Span(0, 1e6)] = 0.0


_COMBINED = {"model": str, "seed": int, "epochs": float, "seconds": float, "weights_sha256": str}
"""Fields of the training of each part of an ensemble."""


def _combined(training: Mapping[str, Any]) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = read_value(
        list[dict[str, Any]], training.get("combined", []), "training.combined"
    )
    return parts


def card_hash(values: Mapping[str, Any]) -> str:
    """SHA-256 of the fields of a card without CARD_SHA256, whatever the layout of the file."""
    text = json.dumps(values, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


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
