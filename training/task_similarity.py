"""How alike tasks are, by what is known of them before any of their programs is timed (Fasor section 4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from ..configuration import ConfigError
from ..dataset.features.table import LabelledFeatures

PROFILES = ("task", "decisions", "stores")
"""Kinds of features that a task can be compared by."""


@dataclass(frozen=True)
class TaskProfiles:
    """One row a task, in the order of their hashes; no latency has a part in it."""

    workload_hash: NDArray[np.str_]  # [t]
    operator: NDArray[np.str_]  # [t]
    records: NDArray[np.int64]  # [t]
    values: NDArray[np.float64]  # [t, d], each column of mean 0 and deviation 1

    @classmethod
    def of(cls, data: LabelledFeatures, kinds: Sequence[str] = ("task",)) -> TaskProfiles:
        """Profiles of all tasks of `data`.

        Fasor's task features are shapes, the serialised schedule configuration and the accesses to memory
        (section 4.1). Here "task" are shapes, loops, operations and bytes, which a task has by itself;
        "decisions" and "stores" are how many of them its programs have, and the mean of their features:
        MetaSchedule's sampled decisions stand for the schedule configuration, TVM's store features for the
        accesses. Columns in which no two tasks differ are left out.

        Raises:
          ConfigError: a kind is unknown, or there is none.
        """
        unknown = [kind for kind in kinds if kind not in PROFILES]
        if unknown or not kinds:
            raise ConfigError(f"choice.features={list(kinds)}: name one or more of {', '.join(PROFILES)}")
        names, first, task_of, records = np.unique(
            data.workload_hash, return_index=True, return_inverse=True, return_counts=True
        )
        table = data.features
        columns = {
            "task": lambda: table.task[first].astype(np.float64),
            "decisions": lambda: _token_means(table.decisions, table.decision_offsets, task_of, records),
            "stores": lambda: _token_means(table.stores, table.store_offsets, task_of, records),
        }
        values = np.concatenate([columns[kind]() for kind in dict.fromkeys(kinds)], axis=1)
        return cls(names, data.operator[first], records, _standardised(values))

    def __len__(self) -> int:
        return len(self.workload_hash)


def spearman_similarity(profiles: TaskProfiles) -> NDArray[np.float64]:
    """Rank correlation of each pair of tasks over their features, float64 [t, t] within [-1, 1].

    Fasor compares tasks by "Spearman similarity considering the task features" (section 4.2) and says no
    more. We correlate standardised columns: over raw ones, any two tasks are alike in that their operations
    are many and their padding is small (the median similarity of our tasks is then 0.7, and 0.0 as it is
    here). A task without any feature that stands out is like no other.
    """
    ranks = rankdata(profiles.values, axis=1) if profiles.values.size else np.zeros((len(profiles), 1))
    ranks -= ranks.mean(axis=1, keepdims=True)
    length = np.linalg.norm(ranks, axis=1, keepdims=True)
    unit = np.divide(ranks, length, out=np.zeros_like(ranks), where=length > 0)
    similarity: NDArray[np.float64] = np.clip(unit @ unit.T, -1.0, 1.0)
    np.fill_diagonal(similarity, 1.0)
    return similarity


def _token_means(
    tokens: NDArray[np.float32],
    offsets: NDArray[np.int64],
    task_of: NDArray[np.int64],
    records: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Tokens a program and mean features of a token for each task, float64 [t, 1 + dim].

    Store features span many orders of magnitude, so that means are of sign(x) ln(1 + |x|).
    """
    lengths = np.diff(offsets)
    token_task = np.repeat(task_of, lengths)
    count = np.bincount(token_task, minlength=len(records)).astype(np.float64)
    sums = np.zeros((len(records), tokens.shape[1]))
    values = tokens.astype(np.float64)
    np.add.at(sums, token_task, np.sign(values) * np.log1p(np.abs(values)))
    return np.column_stack([count / records, sums / np.maximum(count, 1)[:, None]])


def _standardised(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Columns scaled to mean 0 and deviation 1, constant ones left out."""
    deviation = values.std(axis=0)
    varies = deviation > 1e-9 * np.maximum(np.abs(values).max(axis=0), 1.0)
    kept = values[:, varies]
    scaled: NDArray[np.float64] = (kept - kept.mean(axis=0)) / deviation[varies]
    return scaled
