"""Which tasks a network has: from a table beside the records, and from the source of each task.

A dataset may carry `networks.json`, which gives for each network the hashes of its tasks and how often it
calls each, whether the dataset has records of them or not:

    {"resnet18": {"0123456789abcdef": 2, ...}, ...}

A task that several networks share has one source only, so the table tells more than the sources.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from ..dataset.features.table import LabelledFeatures
from ..dataset.split import NETWORK_PREFIX, SplitConfig, SplitError, split_rows
from ..errors import UserError

NETWORKS_FILE = "networks.json"


class NetworksFileError(UserError, ValueError):
    """The table of networks is no table of networks."""


def evaluation_networks(dataset: Path, data: LabelledFeatures) -> dict[str, dict[str, float]]:
    """Weights of the tasks of each network, by workload hash; those of the table come first.

    A network that only sources tell gets the weight 1 for each task.

    Raises:
      NetworksFileError: the table cannot be read.
    """
    networks = _read(dataset / NETWORKS_FILE)
    tasks, first = np.unique(data.workload_hash, return_index=True)
    for task, source in zip(tasks.tolist(), data.source[first].tolist(), strict=True):
        network = source.removeprefix(NETWORK_PREFIX)
        if source.startswith(NETWORK_PREFIX):
            networks.setdefault(network, {}).setdefault(task, 1.0)
    return networks


def split_by_networks(
    config: SplitConfig, data: LabelledFeatures, networks: dict[str, dict[str, float]]
) -> SplitConfig:
    """The split that holds out every task of the named networks, also those known by other sources.

    Other splits come back as they are, and so does one that leaves the choice of the networks to its seed.

    Raises:
      SplitError: a network is unknown, or the dataset has no record of it.
    """
    if config.by != "network" or not config.networks:
        return config
    wanted = [name.removeprefix(NETWORK_PREFIX) for name in config.networks]
    if unknown := sorted(set(wanted) - set(networks)):
        known = ", ".join(sorted(networks)) or "none"
        raise SplitError(
            f"split.networks: {', '.join(unknown)} are in no {NETWORKS_FILE} and in no source; known: {known}"
        )
    held_out = {task for name in wanted for task in networks[name]}
    test = np.isin(data.workload_hash, list(held_out))
    if not test.any():
        raise SplitError(f"split.networks={wanted}: the dataset has no record of any of their tasks")
    rest = data.take(np.flatnonzero(~test))
    others = split_rows(rest, SplitConfig(validation=config.validation, test=0.0, seed=config.seed))
    return SplitConfig(
        by="list",
        seed=config.seed,
        test_tasks=sorted(set(data.workload_hash[test].tolist())),
        validation_tasks=sorted(set(rest.workload_hash[others.validation].tolist())),
    )


def _read(file: Path) -> dict[str, dict[str, float]]:
    if not file.exists():
        return {}
    try:
        table = json.loads(file.read_text(encoding="utf-8"))
        networks = {
            str(name): {str(task): float(weight) for task, weight in tasks.items()}
            for name, tasks in table.items()
        }
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise NetworksFileError(
            f"{file}: {error}; it maps each network to the hashes of its tasks and their counts, as in "
            '{"resnet18": {"0123456789abcdef": 2}}'
        ) from error
    for name, tasks in networks.items():
        if not tasks or not all(weight > 0 for weight in tasks.values()):
            raise NetworksFileError(f"{file}: {name} needs tasks, each with a count above 0")
    return networks
