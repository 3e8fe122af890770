"""Scaling of features, fitted on training rows and carried by the checkpoint's card."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..dataset.features.table import FeatureBatch, FeatureTable

KINDS = ("stores", "decisions", "task", "hardware")
"""Kinds of features."""

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
    """One scaler per kind of token, and the kinds that an ablation leaves out.

    What is left out is so here, in training and serving alike: a vector becomes zeros, a list of tokens
    becomes empty, so that not even its length is told.
    """

    stores: ColumnScaler
    decisions: ColumnScaler
    task: ColumnScaler
    hardware: ColumnScaler
    without: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        unknown = sorted(set(self.without) - set(KINDS))
        if unknown:
            raise ValueError(f"without={list(self.without)}: choose among {', '.join(KINDS)}")

    @classmethod
    def fit(cls, table: FeatureTable, rows: NDArray[np.int64], without: Collection[str] = ()) -> Normaliser:
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
        return cls(**scalers, without=tuple(kind for kind in KINDS if kind in without))

    @property
    def dims(self) -> FeatureDims:
        """The dimensions it was fitted on."""
        return FeatureDims(*(getattr(self, kind).dim for kind in KINDS))

    def table(self, table: FeatureTable) -> FeatureTable:
        """A scaled copy of the table."""
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
            self._vector("task", table.task),
            self._vector("hardware", table.hardware),
        )

    def batch(self, batch: FeatureBatch) -> FeatureBatch:
        """A scaled copy of the batch; padding stays padding, as the masks say."""
        return FeatureBatch(
            *self._tokens("stores", batch.stores, batch.store_mask),
            *self._tokens("decisions", batch.decisions, batch.decision_mask),
            self._vector("task", batch.task),
            self._vector("hardware", batch.hardware),
        )

    def _tokens(
        self, kind: str, tokens: NDArray[np.float32], mask: NDArray[np.bool_]
    ) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        if kind in self.without:  # one token of padding, as an empty list of a table gets
            return np.zeros((len(tokens), 1, tokens.shape[2]), np.float32), np.zeros((len(mask), 1), np.bool_)
        scaler: ColumnScaler = getattr(self, kind)
        return scaler(tokens), mask

    def _vector(self, kind: str, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        scaler: ColumnScaler = getattr(self, kind)
        return np.zeros_like(rows) if kind in self.without else scaler(rows)

    def to_json(self) -> dict[str, Any]:
        """Nested plain values for the card."""
        return {**{kind: getattr(self, kind).to_json() for kind in KINDS}, "without": list(self.without)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Normaliser:
        """Inverse of `to_json`; raises KeyError or ValueError for other content."""
        scalers = {kind: ColumnScaler.from_json(values[kind]) for kind in KINDS}
        return cls(**scalers, without=tuple(values.get("without", ())))  # cards of schema 1 have none


def _compress(rows: NDArray[np.float32], columns: NDArray[np.bool_]) -> NDArray[np.float32]:
    values: NDArray[np.float32] = rows.astype(np.float32)
    wide = values[..., columns]
    values[..., columns] = np.sign(wide) * np.log1p(np.abs(wide))
    return values
