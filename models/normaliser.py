"""Scaling of features, fitted on training rows and carried by the checkpoint's card."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..dataset.features.table import FeatureBatch, FeatureTable

WIDE = 64.0
"""A column that reaches beyond this magnitude is compressed by sign(x) ln(1 + |x|) first."""

LIMIT = 8.0
"""Scaled values are clipped to this many standard deviations, so that an outlier cannot rule a prediction."""


@dataclass(frozen=True)
class ColumnScaler:
    """Scales columns to mean 0 and deviation 1; a column that was constant becomes 0."""

    compress: NDArray[np.bool_]  # [dim]
    mean: NDArray[np.float32]  # [dim]
    inverse_deviation: NDArray[np.float32]  # [dim], 0 for a constant column

    @classmethod
    def fit(cls, rows: NDArray[np.float32]) -> ColumnScaler:
        """Fits rows [n, dim] and accepts n = 0; raises ValueError for a value that is not finite."""
        if not np.isfinite(rows).all():
            column = int(np.flatnonzero(~np.isfinite(rows).all(axis=0))[0])
            raise ValueError(f"column {column} holds NaN or infinity: regenerate the features")
        if len(rows) == 0:
            zeros = np.zeros(rows.shape[1], dtype=np.float32)
            return cls(zeros.astype(np.bool_), zeros, zeros)
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
            raise ValueError(f"{rows.shape[-1]} columns, but the normaliser was fitted on {self.dim}")
        scaled = (_compress(rows, self.compress) - self.mean) * self.inverse_deviation
        return np.clip(scaled, -LIMIT, LIMIT, out=scaled)

    def to_json(self) -> dict[str, list[Any]]:
        """Plain lists; float32 values survive the round trip exactly."""
        return {f.name: getattr(self, f.name).tolist() for f in fields(self)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> ColumnScaler:
        """Inverse of `to_json`; raises KeyError or ValueError for other content."""
        compress = np.array(values["compress"], dtype=np.bool_)
        mean = np.array(values["mean"], dtype=np.float32)
        inverse = np.array(values["inverse_deviation"], dtype=np.float32)
        if not (compress.ndim == 1 and compress.shape == mean.shape == inverse.shape):
            raise ValueError(f"columns of lengths {compress.shape}, {mean.shape} and {inverse.shape}")
        if not (np.isfinite(mean).all() and np.isfinite(inverse).all()):
            raise ValueError("a mean or deviation is not finite")
        return cls(compress, mean, inverse)


@dataclass(frozen=True)
class FeatureDims:
    """Number of features of each kind of token."""

    stores: int
    decisions: int
    task: int
    hardware: int

    @classmethod
    def of(cls, features: FeatureTable | FeatureBatch) -> FeatureDims:
        """Reads the dimensions off a table or a batch."""
        return cls(*(int(getattr(features, f.name).shape[-1]) for f in fields(cls)))


@dataclass(frozen=True)
class Normaliser:
    """One scaler per kind of token."""

    stores: ColumnScaler
    decisions: ColumnScaler
    task: ColumnScaler
    hardware: ColumnScaler

    @classmethod
    def fit(cls, table: FeatureTable, rows: NDArray[np.int64]) -> Normaliser:
        """Fits on the chosen candidates of a table; raises ValueError for features that are not finite."""
        chosen = np.zeros(len(table), dtype=np.bool_)
        chosen[rows] = True
        of_kind = {
            "stores": table.stores[np.repeat(chosen, np.diff(table.store_offsets))],
            "decisions": table.decisions[np.repeat(chosen, np.diff(table.decision_offsets))],
            "task": table.task[chosen],
            "hardware": table.hardware[chosen],
        }
        scalers = {}
        for name, values in of_kind.items():
            try:
                scalers[name] = ColumnScaler.fit(values)
            except ValueError as error:
                raise ValueError(f"{name} features: {error}") from error
        return cls(**scalers)

    @property
    def dims(self) -> FeatureDims:
        """The dimensions it was fitted on."""
        return FeatureDims(*(getattr(self, f.name).dim for f in fields(self)))

    def table(self, table: FeatureTable) -> FeatureTable:
        """A scaled copy of the table."""
        return FeatureTable(
            self.stores(table.stores),
            table.store_offsets,
            self.decisions(table.decisions),
            table.decision_offsets,
            self.task(table.task),
            self.hardware(table.hardware),
        )

    def batch(self, batch: FeatureBatch) -> FeatureBatch:
        """A scaled copy of the batch; padding stays padding, as the masks say."""
        return FeatureBatch(
            self.stores(batch.stores),
            batch.store_mask,
            self.decisions(batch.decisions),
            batch.decision_mask,
            self.task(batch.task),
            self.hardware(batch.hardware),
        )

    def to_json(self) -> dict[str, Any]:
        """Nested plain values for the card."""
        return {f.name: getattr(self, f.name).to_json() for f in fields(self)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Normaliser:
        """Inverse of `to_json`; raises KeyError or ValueError for other content."""
        return cls(**{f.name: ColumnScaler.from_json(values[f.name]) for f in fields(cls)})


def _compress(rows: NDArray[np.float32], columns: NDArray[np.bool_]) -> NDArray[np.float32]:
    values: NDArray[np.float32] = rows.astype(np.float32)
    wide = values[..., columns]
    values[..., columns] = np.sign(wide) * np.log1p(np.abs(wide))
    return values
