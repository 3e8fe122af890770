"""Top-k scores of whole networks, with tasks weighted by the number of their calls.

For the tasks t of a network, let b_t be the best latency, c_t(k) the latency of the fastest of the k highest
predictions, and w_t the weight:

- mean of ratios   sum_t w_t b_t / c_t(k)  /  sum_t w_t
- ratio of sums    sum_t w_t b_t  /  sum_t w_t c_t(k): best latency of the network over its latency if k
                   programs per task are measured; TenSet and TLP define top-k so

Only tasks with records count; `share` is their share of the network's calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .task_metrics import TOP_K, Metrics, TaskMetrics, top_k_sums


@dataclass(frozen=True)
class NetworkMetrics:
    """Top-k scores of one network, or of several networks together."""

    network: str
    tasks: int  # with records
    share: float  # share of these tasks in the network's calls
    top_1: float
    top_5: float
    top_10: float
    top_1_sums: float
    top_5_sums: float
    top_10_sums: float


def network_metrics(
    metrics: Metrics, names: Mapping[int, str], networks: Mapping[str, Mapping[str, float]]
) -> list[NetworkMetrics]:
    """Top-k scores of every network that has a task with records, in the order of `networks`.

    Args:
      metrics: metrics of the tasks.
      names: workload hash of each group in `metrics`; groups of one task on several devices are separate.
      networks: weight of each task of a network, by workload hash.
    """
    found = []
    for network, weights in networks.items():
        tasks = [task for task in metrics.per_task if names[task.group] in weights]
        if tasks:
            own = [float(weights[names[task.group]]) for task in tasks]
            known = {names[task.group] for task in tasks}
            share = sum(weights[name] for name in known) / sum(weights.values())
            found.append(_figures(network, tasks, own, share))
    return found


def over_networks(
    metrics: Metrics, names: Mapping[int, str], networks: Mapping[str, Mapping[str, float]]
) -> NetworkMetrics | None:
    """Top-k scores of all networks together; None if no network has a task with records.

    The ratio of sums is over all tasks of all networks, as in TenSet and TLP. The mean of ratios is the mean
    of the networks' means.
    """
    each = network_metrics(metrics, names, networks)
    if not each:
        return None
    tasks, weights = [], []
    for own in networks.values():
        for task in metrics.per_task:
            if names[task.group] in own:
                tasks.append(task)
                weights.append(float(own[names[task.group]]))
    return NetworkMetrics(
        "all networks",
        len(tasks),
        float(np.mean([network.share for network in each])),
        **{f"top_{k}": float(np.mean([getattr(network, f"top_{k}") for network in each])) for k in TOP_K},
        **{f"top_{k}_sums": top_k_sums(tasks, k, weights) for k in TOP_K},
    )


def _figures(
    network: str, tasks: Sequence[TaskMetrics], weights: Sequence[float], share: float
) -> NetworkMetrics:
    means = {
        f"top_{k}": float(np.average([getattr(task, f"top_{k}") for task in tasks], weights=weights))
        for k in TOP_K
    }
    sums = {f"top_{k}_sums": top_k_sums(tasks, k, weights) for k in TOP_K}
    return NetworkMetrics(network, len(tasks), share, **means, **sums)
