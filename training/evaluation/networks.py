"""Tasks of networks, from the table next to the records and from the source of each task."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import numpy as np

from ...dataset.features.table import LabelledFeatures
from ...dataset.records.network_weights import NETWORKS_FILE, read_networks
from ...dataset.records.split import (
    NETWORK_PREFIX,
    SplitConfig,
    SplitError,
    evenly_spaced,
    split_rows,
    with_shapes_of,
)


def evaluation_networks(dataset: Path, data: LabelledFeatures) -> dict[str, dict[str, float]]:
    """Weights of the tasks of each network, by workload hash; the table takes precedence.

    The tasks of a network that only sources name have the weight 1.

    Raises:
      NetworksFileError: the table cannot be read.
    """
    networks = read_networks(dataset)
    tasks, first = np.unique(data.workload_hash, return_index=True)
    for task, source in zip(tasks.tolist(), data.source[first].tolist(), strict=True):
        network = source.removeprefix(NETWORK_PREFIX)
        if source.startswith(NETWORK_PREFIX):
            networks.setdefault(network, {}).setdefault(task, 1.0)
    return networks


def split_by_networks(
    config: SplitConfig,
    data: LabelledFeatures,
    networks: dict[str, dict[str, float]],
    seen: Collection[str] = (),
) -> SplitConfig:
    """Split that holds out every task of some networks, also if its source or its epilogue differs.

    If none is named, the seed draws the share `test` of the networks that have a task to hold out. Tasks of
    `seen`, which a model that is trained further knows, are not held out. Other splits are returned
    unchanged.

    Raises:
      SplitError: the dataset lists no network, a network is unknown, or the dataset has no record of it.
    """
    if config.by != "network":
        return config
    if not networks:
        raise SplitError(
            "split.by=network, but no record comes from a network: generate some with foretune generate "
            "networks=[resnet18], or set split.by=task"
        )
    rest = SplitConfig(validation=config.validation, test=0.0, seed=config.seed)
    named = [name.removeprefix(NETWORK_PREFIX) for name in config.networks]
    wanted = named or _drawn_networks(config, data, networks, seen)
    if not wanted and config.test > 0:
        raise SplitError(
            "split.by=network: the model has seen a task of every network; set split.test=0, or use "
            "split.by=task"
        )
    if not wanted:
        return rest
    if unknown := sorted(set(wanted) - set(networks)):
        known = ", ".join(sorted(networks))
        raise SplitError(
            f"split.networks: {', '.join(unknown)} are in no {NETWORKS_FILE} and in no source; known: {known}"
        )
    held_out = {task for name in wanted for task in networks[name]} - set(seen)
    test = with_shapes_of(data, held_out) & ~with_shapes_of(data, seen)
    if not test.any():
        unseen = " that the model has not seen" if seen else ""
        raise SplitError(f"split.networks={wanted}: the dataset has no record of any of their tasks{unseen}")
    if test.all():
        raise SplitError(
            f"split.networks={wanted}: all records are of their tasks, or share a shape with one, which "
            "leaves none to train on; name fewer networks"
        )
    others = data.take(np.flatnonzero(~test))
    validation = split_rows(others, rest, seen).validation
    return SplitConfig(
        by="list",
        seed=config.seed,
        test_tasks=sorted(set(data.workload_hash[test].tolist())),
        validation_tasks=sorted(set(others.workload_hash[validation].tolist())),
    )


def _drawn_networks(
    config: SplitConfig,
    data: LabelledFeatures,
    networks: dict[str, dict[str, float]],
    seen: Collection[str],
) -> list[str]:
    fresh = set(data.workload_hash[~with_shapes_of(data, seen)].tolist())
    names = sorted(name for name, tasks in networks.items() if not fresh.isdisjoint(tasks))
    chosen = evenly_spaced(len(names), config.test, np.random.default_rng(config.seed))
    return [name for name, held_out in zip(names, chosen, strict=True) if held_out]
