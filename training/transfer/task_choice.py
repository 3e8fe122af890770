"""Choice of a few tasks to measure on a new device (Fasor section 4.2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import AgglomerativeClustering, KMeans
from sklearn.metrics import pairwise_distances

from ...configuration import ConfigError, check_seed
from ...dataset.features.table import LabelledFeatures
from ...errors import UserError
from ...wording import counted, verb
from .task_similarity import TaskProfiles, spearman_similarity


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
