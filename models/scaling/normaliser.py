"""Normalisation of features, fitted on training rows and stored in the checkpoint's card."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from ...dataset.features.draft_vector import DEVICE_COLUMNS
from ...dataset.features.roofline import EARLIER_WORK_DIM, WORK_DIM, work_features
from ...dataset.features.table import FeatureBatch, FeatureTable
from ...dataset.features.vectors import TASK_DIM
from ...json_fields import Signed, Span, read_fields

KINDS = ("stores", "decisions", "task", "hardware", "draft", "counts")
"""Kinds of features that an ablation may leave out; the draft vector follows the task vector in its rows."""

_HARDWARE_VECTOR = "hardware vector"
_EARLIER_KINDS = {"task": ("task", "draft"), "hardware": (_HARDWARE_VECTOR,)}
"""Meaning of kinds in cards of schema 1 to 4: the draft vector went with the task's, as a whole."""

_SCALERS = ("stores", "decisions", "task", "hardware", "counts")

WIDE = 64.0
"""Columns with a larger magnitude are first compressed by sign(x) ln(1 + |x|)."""

LIMIT = 8.0
"""Bound of scaled values in standard deviations, so that an outlier cannot dominate a prediction."""

_BLOCK = 32  # columns that are fitted at once, which bounds memory


@dataclass(frozen=True)
class ColumnScaler:
    """Scaler of columns to mean 0 and deviation 1; a column that is constant in training becomes 0."""

    compress: NDArray[np.bool_]  # [dim]
    mean: NDArray[np.float32]  # [dim]
    inverse_deviation: NDArray[np.float32]  # [dim], 0 for a constant column

    @classmethod
    def fit(cls, rows: NDArray[np.float32]) -> ColumnScaler:
        """Scaler of rows [n, dim], where n may be 0; raises ValueError for a value that is not finite."""
        if not np.isfinite(rows).all():
            column = int(np.flatnonzero(~np.isfinite(rows).all(axis=0))[0])
            raise ValueError(f"column {column} contains NaN or infinity: regenerate the features")
        if len(rows) == 0:
            zeros = np.zeros(rows.shape[1], dtype=np.float32)
            return cls(zeros.astype(np.bool_), zeros, zeros)
        if rows.shape[1] > _BLOCK:
            parts = [cls.fit(rows[:, at : at + _BLOCK]) for at in range(0, rows.shape[1], _BLOCK)]
            return cls(*(np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(cls)))
        compress = np.abs(rows).max(axis=0) > WIDE
        values = _compress(rows, compress).astype(np.float64)
        deviation = values.std(axis=0)
        constant = deviation <= 1e-6 * np.maximum(np.abs(values).max(axis=0), 1)
        inverse = np.where(constant, 0.0, 1 / np.where(constant, 1.0, deviation))
        return cls(compress, values.mean(axis=0).astype(np.float32), inverse.astype(np.float32))

    @property
    def dim(self) -> int:
        """Number of columns."""
        return len(self.mean)

    def __call__(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """Scales float32 [..., dim]; raises ValueError for another number of columns."""
        if rows.shape[-1] != self.dim:
            raise ValueError(f"{rows.shape[-1]} columns, but the normaliser was fitted to {self.dim}")
        scaled = _compress(rows, self.compress)
        scaled -= self.mean
        scaled *= self.inverse_deviation
        return np.clip(scaled, -LIMIT, LIMIT, out=scaled)

    def to_json(self) -> dict[str, list[Any]]:
        """Plain lists; `from_json` restores float32 values exactly."""
        return {f.name: getattr(self, f.name).tolist() for f in fields(self)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> ColumnScaler:
        """Inverse of `to_json`; raises ValueError for other content."""
        read = read_fields(_ScalerValues, values)
        compress = np.array(read.compress, dtype=np.bool_)
        mean = np.array(read.mean, dtype=np.float32)
        inverse = np.array(read.inverse_deviation, dtype=np.float32)
        if not compress.shape == mean.shape == inverse.shape:
            raise ValueError(f"columns of lengths {compress.shape}, {mean.shape} and {inverse.shape}")
        return cls(compress, mean, inverse)


@dataclass(frozen=True)
class _ScalerValues:
    """JSON of a ColumnScaler."""

    compress: list[bool]
    mean: list[Signed]
    inverse_deviation: list[Annotated[float, Span(0, 1e38)]]


@dataclass(frozen=True)
class FeatureDims:
    """Number of columns of each field of a normalised feature table."""

    stores: int
    decisions: int
    task: int
    hardware: int

    @classmethod
    def of(cls, features: FeatureTable | FeatureBatch) -> FeatureDims:
        """Dimensions of a table or a batch."""
        return cls(*(int(getattr(features, f.name).shape[-1]) for f in fields(cls)))


@dataclass(frozen=True)
class Normaliser:
    """One scaler per field of a `FeatureTable`, and the kinds of features that an ablation leaves out.

    The normaliser leaves them out in training and serving alike. Columns of a vector become zeros; a list of
    tokens becomes empty, so that its length is hidden, too. "task" is the first TASK_DIM columns of the task
    field and "draft" the columns after them. "counts" are the features of `roofline.work_features`;
    normalised, they follow in the task field. "hardware" is the hardware vector and the draft columns that
    depend on the device. Counts depend on the device's caches and on the least latency of the task, so they
    are left out with either.
    """

    stores: ColumnScaler
    decisions: ColumnScaler
    task: ColumnScaler
    hardware: ColumnScaler
    counts: ColumnScaler = field(default_factory=lambda: ColumnScaler.fit(np.zeros((0, 0), np.float32)))
    """Without columns for a model that reads no counts."""
    without: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        unknown = sorted(set(self.without) - {*KINDS, _HARDWARE_VECTOR})
        if unknown:
            raise ValueError(f"without={list(self.without)}: choose among {', '.join(KINDS)}")
        if self.counts.dim not in (0, EARLIER_WORK_DIM, WORK_DIM):
            raise ValueError(f"{self.counts.dim} columns of counts: this version has no such counts")

    @classmethod
    def fit(cls, table: FeatureTable, rows: NDArray[np.int64], without: Collection[str] = ()) -> Normaliser:
        """Normaliser of some candidates of a table; raises ValueError for features that are not finite."""
        chosen = np.zeros(len(table), dtype=np.bool_)
        chosen[rows] = True
        of_kind = {
            "stores": np.repeat(chosen, np.diff(table.store_offsets)),
            "decisions": np.repeat(chosen, np.diff(table.decision_offsets)),
            "task": chosen,
            "hardware": chosen,
        }
        scalers = {}
        for name, of_chosen in of_kind.items():
            try:
                scalers[name] = ColumnScaler.fit(getattr(table, name)[of_chosen])
            except ValueError as error:
                raise ValueError(f"{name} features: {error}") from error
        if table.counts.shape[1] and not {"counts", "hardware", "task"} & set(without):
            work = work_features(table.counts[chosen], table.task[chosen], table.hardware[chosen])
            scalers["counts"] = ColumnScaler.fit(work)
        return cls(**scalers, without=tuple(kind for kind in KINDS if kind in without))

    @property
    def dims(self) -> FeatureDims:
        """Dimensions of normalised features."""
        task = self.task.dim + self.counts.dim
        return FeatureDims(self.stores.dim, self.decisions.dim, task, self.hardware.dim)

    @property
    def reads_counts(self) -> bool:
        """Whether programs are to be counted for the model."""
        return self.counts.dim > 0

    @property
    def device_kinds(self) -> frozenset[str]:
        """Kinds of devices in the training data, named as in `Hardware.kind`.

        The first hardware feature is 1 for a GPU and 0 for a CPU, so that its mean is the share of GPU rows.
        """
        gpu_share = float(self.hardware.mean[0])
        present = {"cpu": gpu_share < 1 - 1e-6, "cuda": gpu_share > 1e-6}
        return frozenset(kind for kind, there in present.items() if there)

    def table(self, table: FeatureTable) -> FeatureTable:
        """Normalised copy of a table."""
        stores, store_offsets = table.stores, table.store_offsets
        decisions, decision_offsets = table.decisions, table.decision_offsets
        if "stores" in self.without:
            stores, store_offsets = stores[:0], np.zeros_like(store_offsets)
        if "decisions" in self.without:
            decisions, decision_offsets = decisions[:0], np.zeros_like(decision_offsets)
        return FeatureTable(
            self.stores(stores),
            store_offsets,
            self.decisions(decisions),
            decision_offsets,
            self._task(table),
            self._hardware(table.hardware),
            table.counts[:, :0],
        )

    def batch(self, batch: FeatureBatch) -> FeatureBatch:
        """Normalised copy of a batch; padding remains padding."""
        return FeatureBatch(
            *self._tokens("stores", batch.stores, batch.store_mask),
            *self._tokens("decisions", batch.decisions, batch.decision_mask),
            self._task(batch),
            self._hardware(batch.hardware),
            batch.counts[:, :0],
        )

    def _tokens(
        self, kind: str, tokens: NDArray[np.float32], mask: NDArray[np.bool_]
    ) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        if kind in self.without:  # one token of padding, as for an empty list of a table
            return np.zeros((len(tokens), 1, tokens.shape[2]), np.float32), np.zeros((len(mask), 1), np.bool_)
        scaler: ColumnScaler = getattr(self, kind)
        return scaler(tokens), mask

    def _task(self, features: FeatureTable | FeatureBatch) -> NDArray[np.float32]:
        """Scaled task and draft vectors, followed by the features of the counts if the model reads them."""
        scaled = self.task(features.task)
        if "task" in self.without:
            scaled[:, :TASK_DIM] = 0
        if "draft" in self.without:
            scaled[:, TASK_DIM:] = 0
        if "hardware" in self.without and scaled.shape[1] > TASK_DIM:
            scaled[:, [TASK_DIM + column for column in DEVICE_COLUMNS]] = 0
        if not self.reads_counts:
            return scaled
        if not features.counts.shape[1]:
            raise ValueError("the features have no counts, which the model reads: count the programs")
        work = work_features(features.counts, features.task, features.hardware)
        return np.concatenate([scaled, self.counts(work[:, : self.counts.dim])], axis=1)

    def _hardware(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """Scaled hardware vectors [n, dim]."""
        left_out = {"hardware", _HARDWARE_VECTOR} & set(self.without)
        return np.zeros_like(rows) if left_out else self.hardware(rows)

    def to_json(self) -> dict[str, Any]:
        """Nested plain values for the card."""
        scalers = {name: getattr(self, name).to_json() for name in _SCALERS}
        return {**scalers, "without": list(self.without)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any], earlier: bool = False) -> Normaliser:
        """Inverse of `to_json`; raises ValueError for other content.

        `earlier` reads the kinds left out as cards of schema 1 to 4 mean them.
        """
        for name in (name for name in _SCALERS if name != "counts"):
            if name not in values:
                raise ValueError(f"normaliser.{name!r} is missing")
        # Cards of schema 1 to 5 have no scaler of counts.
        there = [name for name in _SCALERS if name != "counts" or name in values]
        scalers = {name: ColumnScaler.from_json(values[name]) for name in there}
        without = values.get("without", ())  # cards of schema 1 have none
        if earlier:
            without = [kind for name in without for kind in _EARLIER_KINDS.get(name, (name,))]
        return cls(**scalers, without=tuple(without))


def _compress(rows: NDArray[np.float32], columns: NDArray[np.bool_]) -> NDArray[np.float32]:
    values: NDArray[np.float32] = rows.astype(np.float32)
    wide = values[..., columns]
    values[..., columns] = np.copysign(np.log1p(np.abs(wide)), wide)
    return values
