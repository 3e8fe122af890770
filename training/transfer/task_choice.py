"""Choice of a few tasks to measure on a new device (Fasor section 4.2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.cluster import AgglomerativeClustering, KMeans
from sklearn.metrics import pairwise_distances

from ...configuration import ConfigError, check_seed
from ...dataset.features.table import LabelledFeatures
from ...errors import UserError
from ...wording import counted, verb


class TaskChoiceError(UserError, ValueError):
    """There are too few tasks to choose from."""


@dataclass(frozen=True)
class ChoiceConfig:
    """Settings of the choice of `k` tasks.

    `method` is "fasor" (one task from each of k clusters by Spearman similarity), "k_means" (the task nearest
    to each of k means), or "random". `features` are the kinds of features that tasks are compared by, see
    `TaskProfiles.of`. The seed affects "random" and "k_means" alone.
    """

    k: int = 10
    method: str = "fasor"
    features: list[str] = field(default_factory=lambda: ["task"])
    seed: int = 0

    def __post_init__(self) -> None:
        check_seed("choice.seed", self.seed)
        if self.k < 1:
            raise ConfigError(f"choice.k={self.k}: choose at least 1 task; Fasor takes 10")
        if self.method not in METHODS:
            raise ConfigError(f"choice.method={self.method!r} is unknown: choose one of {', '.join(METHODS)}")


def choose_tasks(data: LabelledFeatures, choice: ChoiceConfig) -> list[str]:
    """Workload hashes of the `choice.k` tasks of `data` to measure, chosen without any latency.

    Tasks of large clusters come first, except for "random".

    Raises:
      TaskChoiceError: `data` has fewer tasks.
    """
    profiles = TaskProfiles.of(data, choice.features)
    if len(profiles) < choice.k:
        raise TaskChoiceError(
            f"choice.k={choice.k}, but there {verb(len(profiles), 'is', 'are')} "
            f"{counted(len(profiles), 'task')} to choose from: set choice.k to "
            f"{len(profiles)} or less, or add tasks with foretune generate"
        )
    return [str(profiles.workload_hash[task]) for task in METHODS[choice.method](profiles, choice)]


def _fasor(profiles: TaskProfiles, choice: ChoiceConfig) -> list[int]:
    """One task of each cluster by average linkage; the paper does not name the clustering."""
    distance = 1.0 - spearman_similarity(profiles)
    if len(profiles) == 1:
        return [0]
    clusters = AgglomerativeClustering(choice.k, metric="precomputed", linkage="average")
    return _medoids(clusters.fit_predict(distance), distance)


def _k_means(profiles: TaskProfiles, choice: ChoiceConfig) -> list[int]:
    """One task of each cluster by Euclidean distance of the standardised features."""
    values = profiles.values if profiles.values.shape[1] else np.zeros((len(profiles), 1))
    distinct = min(choice.k, len(np.unique(values, axis=0)))
    labels = KMeans(distinct, n_init=10, random_state=choice.seed).fit_predict(values)
    chosen = _medoids(labels, pairwise_distances(values))
    # Tasks with equal features, such as tasks that differ in their epilogue alone, form only one cluster.
    rest = [task for task in range(len(profiles)) if task not in chosen]
    return [*chosen, *rest[: choice.k - len(chosen)]]


def _random(profiles: TaskProfiles, choice: ChoiceConfig) -> list[int]:
    return np.random.default_rng(choice.seed).permutation(len(profiles))[: choice.k].tolist()


METHODS: Mapping[str, Callable[[TaskProfiles, ChoiceConfig], list[int]]] = {
    "fasor": _fasor,
    "k_means": _k_means,
    "random": _random,
}


def _medoids(labels: NDArray[np.int64], distance: NDArray[np.float64]) -> list[int]:
    """Task of each cluster with the least distance to its others, from the largest cluster down."""
    members = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    members.sort(key=lambda tasks: (-len(tasks), tasks[0]))
    return [int(tasks[distance[np.ix_(tasks, tasks)].sum(axis=1).argmin()]) for tasks in members]


PROFILES = ("task", "decisions", "stores")
"""Kinds of features that tasks can be compared by."""
_CHUNK = 8192  # tokens whose features are summed at a time, as float64


@dataclass(frozen=True)
class TaskProfiles:
    """Features with one row per task, in the order of workload hashes; they do not depend on latencies."""

    workload_hash: NDArray[np.str_]  # [t]
    operator: NDArray[np.str_]  # [t]
    records: NDArray[np.int64]  # [t]
    values: NDArray[np.float64]  # [t, d], each column of mean 0 and deviation 1

    @classmethod
    def of(cls, data: LabelledFeatures, kinds: Sequence[str] = ("task",)) -> TaskProfiles:
        """Profiles of all tasks of `data`.

        Fasor's task features are shapes, the serialised schedule configuration and the memory accesses
        (section 4.1). Here "task" is the task field of the first record: shapes, loops, operations and bytes,
        and the draft vector. "decisions" and "stores" are the mean number of these tokens per program and
        the mean of their features: MetaSchedule's decisions correspond to the schedule configuration, TVM's
        store features to the accesses. Columns that are equal for all tasks are left out.

        Raises:
          ConfigError: a kind is unknown or missing from the features of the model, or none is given.
        """
        unknown = [kind for kind in kinds if kind not in PROFILES]
        if unknown or not kinds:
            raise ConfigError(f"choice.features={list(kinds)}: name one or more of {', '.join(PROFILES)}")
        names, first, task_of, records = np.unique(
            data.workload_hash, return_index=True, return_inverse=True, return_counts=True
        )
        table = data.features
        for kind in kinds:
            if getattr(table, kind).size == 0:
                raise ConfigError(
                    f"choice.features={list(kinds)}: the model reads no {kind}; leave them out, or give a "
                    "checkpoint of a model that is not a draft model"
                )
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
    """Rank correlation of each pair of tasks over their features, float64 [t, t] in [-1, 1].

    Fasor compares tasks by "Spearman similarity considering the task features" (section 4.2), without
    details. Here the columns are standardised first: with raw columns any two tasks are similar, as all have
    many operations and little padding (the median similarity of our tasks is then 0.7, and 0.0 with
    standardised columns). A task whose features are all equal has the similarity 0 to all others.
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
    """Mean number of tokens per program and mean token features of each task, float64 [t, 1 + dim].

    Store features span many orders of magnitude, so the means are over sign(x) ln(1 + |x|).
    """
    lengths = np.diff(offsets)
    token_task = np.repeat(task_of, lengths)
    count = np.bincount(token_task, minlength=len(records)).astype(np.float64)
    sums = np.zeros((len(records), tokens.shape[1]))
    order = np.argsort(token_task, kind="stable")
    for start in range(0, len(order), _CHUNK):
        rows = order[start : start + _CHUNK]
        first = np.flatnonzero(np.diff(token_task[rows], prepend=-1))
        values = tokens[rows].astype(np.float64)
        sums[token_task[rows[first]]] += np.add.reduceat(np.sign(values) * np.log1p(np.abs(values)), first)
    return np.column_stack([count / records, sums / np.maximum(count, 1)[:, None]])


def _standardised(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Columns scaled to mean 0 and deviation 1, without constant columns."""
    deviation = values.std(axis=0)
    varies = deviation > 1e-9 * np.maximum(np.abs(values).max(axis=0), 1.0)
    kept = values[:, varies]
    scaled: NDArray[np.float64] = (kept - kept.mean(axis=0)) / deviation[varies]
    return scaled
