"""Which tasks a network has, and how often it calls each: a table beside the records of a dataset.

A dataset may carry `networks.json`, which gives for each network the hashes of its tasks and how often it
calls each, whether the dataset has records of them or not:

    {"resnet18": {"0123456789abcdef": 2, ...}, ...}

A task that several networks share has one source only, so the table tells more than the sources.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

from ..errors import UserError
from .store import RecordStore

NETWORKS_FILE = "networks.json"

NetworkWeights: TypeAlias = dict[str, dict[str, float]]
"""Calls of each task of a network, by workload hash."""


class NetworksFileError(UserError, ValueError):
    """The table of networks is no table of networks, or tells something else than another one."""


def read_networks(dataset: Path) -> NetworkWeights:
    """The table of a dataset, empty where it has none. Raises NetworksFileError."""
    file = dataset / NETWORKS_FILE
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


def united(tables: Iterable[Mapping[str, Mapping[str, float]]], where: Path) -> NetworkWeights:
    """All networks of several tables, of which `where` will hold the result.

    Raises NetworksFileError for a name that stands for different tasks: at another batch, or cut by another
    version, it is another network.
    """
    networks: NetworkWeights = {}
    for table in tables:
        for name, tasks in table.items():
            if networks.setdefault(name, dict(tasks)) != dict(tasks):
                raise NetworksFileError(
                    f"{where / NETWORKS_FILE}: network {name} has other tasks there than here, as it has at "
                    "another batch, with other inputs or by another version: give it another name, as in "
                    f"networks=[{{network: {name}, name: {name}_b}}], or use another dataset"
                )
    return networks


def put_networks(store: RecordStore, networks: Mapping[str, Mapping[str, float]]) -> None:
    """Writes the table of a dataset, which is being written to, whole or not at all. Raises StoreError."""
    store.put_file(NETWORKS_FILE, json.dumps(networks, indent=1, sort_keys=True).encode() + b"\n")
