"""Feature tables: written by the assembly, read by all cost models.

A candidate has *store* tokens (one for each buffer store of the lowered program), *decision* tokens (one for
each sampled decision of its trace), a task vector and a hardware vector, all at one level as in One-Shot
Tuner section 4.1.3. The task vector ends with the candidate's draft vector (`drafting.features`). Some models
also read counts of the lowered program. Token lists vary in length, so a table stores them flat with offsets
and pads them only in batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields

import numpy as np
from numpy.typing import NDArray

STORE_DIM = 164
"""Length of TVM's per-store feature vector without workload features."""

COUNT_DIM = 10
"""Counts of a program: instructions, bytes by `program_counts.LEVELS`, scattered elements, stretches by
`program_counts.RUN_LEVELS`, contested stores, and chained additions; log2(1 + x)."""

NO_COUNTS = np.zeros(0, dtype=np.float32)
"""Placeholder for the counts of a program that was not counted."""


@dataclass(frozen=True)
class CandidateFeatures:
    """Features of one candidate, all float32."""

    stores: NDArray[np.float32]  # [n_stores, STORE_DIM]
    decisions: NDArray[np.float32]  # [n_decisions, DECISION_DIM]
    task: NDArray[np.float32]  # [TASK_DIM + DRAFT_DIM]
    hardware: NDArray[np.float32]  # [HARDWARE_DIM]
    counts: NDArray[np.float32] = field(default_factory=NO_COUNTS.copy)  # [COUNT_DIM], or [0] uncounted

    @property
    def describes_program(self) -> bool:
        """Whether all features of the task and its program are finite; those of a zero extent are not."""
        parts = (self.stores, self.decisions, self.task, self.counts)
        return all(bool(np.isfinite(part).all()) for part in parts)


@dataclass(frozen=True)
class FeatureBatch:
    """Padded batch; masks are True for real tokens."""

    stores: NDArray[np.float32]  # [n, max_stores, STORE_DIM]
    store_mask: NDArray[np.bool_]  # [n, max_stores]
    decisions: NDArray[np.float32]  # [n, max_decisions, DECISION_DIM]
    decision_mask: NDArray[np.bool_]  # [n, max_decisions]
    task: NDArray[np.float32]  # [n, TASK_DIM + DRAFT_DIM]
    hardware: NDArray[np.float32]  # [n, HARDWARE_DIM]
    counts: NDArray[np.float32]  # [n, COUNT_DIM], or [n, 0] uncounted

    def __len__(self) -> int:
        return len(self.task)


@dataclass(frozen=True)
class FeatureTable:
    """Features of many candidates; token `j` of candidate `i` is in row `offsets[i] + j`."""

    stores: NDArray[np.float32]  # [total_stores, STORE_DIM]
    store_offsets: NDArray[np.int64]  # [n + 1]
    decisions: NDArray[np.float32]  # [total_decisions, DECISION_DIM]
    decision_offsets: NDArray[np.int64]  # [n + 1]
    task: NDArray[np.float32]  # [n, TASK_DIM + DRAFT_DIM]
    hardware: NDArray[np.float32]  # [n, HARDWARE_DIM]
    counts: NDArray[np.float32]  # [n, COUNT_DIM], or [n, 0] uncounted

    @classmethod
    def from_candidates(cls, candidates: Sequence[CandidateFeatures]) -> FeatureTable:
        """Stack candidates into a table; raises ValueError if `candidates` is empty."""
        if not candidates:
            raise ValueError("candidates is empty: pass at least one candidate")
        return cls(
            stores=np.concatenate([c.stores for c in candidates]),
            store_offsets=np.cumsum([0, *(len(c.stores) for c in candidates)], dtype=np.int64),
            decisions=np.concatenate([c.decisions for c in candidates]),
            decision_offsets=np.cumsum([0, *(len(c.decisions) for c in candidates)], dtype=np.int64),
            task=np.stack([c.task for c in candidates]),
            hardware=np.stack([c.hardware for c in candidates]),
            counts=np.stack([c.counts for c in candidates]),
        )

    @classmethod
    def concatenate(cls, tables: Sequence[FeatureTable]) -> FeatureTable:
        """Concatenate tables, keeping the order; raises ValueError if `tables` is empty."""
        return cls(
            stores=np.concatenate([table.stores for table in tables]),
            store_offsets=_joined_offsets([table.store_offsets for table in tables]),
            decisions=np.concatenate([table.decisions for table in tables]),
            decision_offsets=_joined_offsets([table.decision_offsets for table in tables]),
            task=np.concatenate([table.task for table in tables]),
            hardware=np.concatenate([table.hardware for table in tables]),
            counts=np.concatenate([table.counts for table in tables]),
        )

    def __len__(self) -> int:
        return len(self.task)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of tokens of each candidate [n], stores and decisions together."""
        return np.diff(self.store_offsets) + np.diff(self.decision_offsets)

    def take(self, rows: NDArray[np.int64]) -> FeatureTable:
        """Table of the given candidates, in the order of `rows`."""
        stores, store_offsets = _take(self.stores, self.store_offsets, rows)
        decisions, decision_offsets = _take(self.decisions, self.decision_offsets, rows)
        return FeatureTable(
            *(stores, store_offsets, decisions, decision_offsets),
            *(self.task[rows], self.hardware[rows], self.counts[rows]),
        )

    def batch(self, rows: NDArray[np.int64] | None = None) -> FeatureBatch:
        """Pad the given rows, by default all, to the longest token list among them."""
        if rows is None:
            rows = np.arange(len(self), dtype=np.int64)
        stores, store_mask = _pad(self.stores, self.store_offsets, rows)
        decisions, decision_mask = _pad(self.decisions, self.decision_offsets, rows)
        return FeatureBatch(
            *(stores, store_mask, decisions, decision_mask),
            *(self.task[rows], self.hardware[rows], self.counts[rows]),
        )


def draft_table(vectors: NDArray[np.float32], hardware: NDArray[np.float32]) -> FeatureTable:
    """Feature table of draft models, without tokens and counts.

    `vectors` is [n, TASK_DIM + DRAFT_DIM], `hardware` [n, HARDWARE_DIM].
    """
    none = np.zeros(len(vectors) + 1, dtype=np.int64)
    return FeatureTable(
        stores=np.zeros((0, 1), dtype=np.float32),
        store_offsets=none,
        decisions=np.zeros((0, 1), dtype=np.float32),
        decision_offsets=none,
        task=vectors,
        hardware=hardware,
        counts=np.zeros((len(vectors), 0), dtype=np.float32),
    )


def _pad(
    flat: NDArray[np.float32], offsets: NDArray[np.int64], rows: NDArray[np.int64]
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Gather ragged rows of `flat` into a zero-padded [len(rows), longest, dim] array and its mask."""
    lengths = offsets[rows + 1] - offsets[rows]
    longest = max(int(lengths.max(initial=0)), 1)
    position = np.arange(longest)
    mask = position[None, :] < lengths[:, None]
    padded = np.zeros((len(rows), longest, flat.shape[1]), dtype=np.float32)
    padded[mask] = flat[(offsets[rows][:, None] + position[None, :])[mask]]
    return padded, mask


def _joined_offsets(offsets: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Offsets of concatenated ragged rows."""
    return np.cumsum(np.concatenate([[0], *map(np.diff, offsets)]), dtype=np.int64)


def _take(
    flat: NDArray[np.float32], offsets: NDArray[np.int64], rows: NDArray[np.int64]
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Ragged rows of `flat`, still flat, with their offsets."""
    lengths = offsets[rows + 1] - offsets[rows]
    taken = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    tokens = np.arange(taken[-1]) + np.repeat(offsets[rows] - taken[:-1], lengths)
    return flat[tokens], taken


@dataclass(frozen=True)
class LabelledFeatures:
    """Training data, one row for each record.

    `latency_s` is in seconds, +inf for a failed candidate. `workload_hash` identifies the task; only rows
    with the same task, hardware and code-generation target are comparable. `shape` identifies the
    computation, whatever its layout and epilogue (`task_shapes.shape_hash`). `operator` is the task's type.
    `source` is "operator" for a sampled task and "network:<name>" for a task of a network. `instructions` and
    `moved_bytes` are counts of the program (`program_counts`). If a record has CPU counters, they supply the
    last level of the bytes.
    """

    features: FeatureTable
    latency_s: NDArray[np.float64]  # [n]
    workload_hash: NDArray[np.str_]  # [n]
    shape: NDArray[np.str_]  # [n]
    operator: NDArray[np.str_]  # [n]
    source: NDArray[np.str_]  # [n]
    hardware_id: NDArray[np.str_]  # [n]
    target: NDArray[np.str_]  # [n]
    instructions: NDArray[np.float64]  # [n]
    moved_bytes: NDArray[np.float64]  # [n, 4], see program_counts.LEVELS

    @classmethod
    def concatenate(cls, parts: Sequence[LabelledFeatures]) -> LabelledFeatures:
        """Concatenate parts, keeping the order; raises ValueError if `parts` is empty."""
        names = [f.name for f in fields(cls) if f.name != "features"]
        columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
        return cls(FeatureTable.concatenate([part.features for part in parts]), **columns)

    def __len__(self) -> int:
        return len(self.latency_s)

    def take(self, rows: NDArray[np.int64]) -> LabelledFeatures:
        """The given records, in the order of `rows`."""
        columns = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "features"}
        return LabelledFeatures(self.features.take(rows), **{n: c[rows] for n, c in columns.items()})
