"""Table of networks in a dataset: the tasks of each network and how often it calls them.

The file `networks.json` gives for each network the workload hashes of its tasks and their call counts,
including tasks without records:

    {"resnet18": {"0123456789abcdef": 2, ...}, ...}

A task has only one source, so the table is needed for tasks that several networks share.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

from ...errors import UserError
from .store import RecordStore

NETWORKS_FILE = "networks.json"

NetworkWeights: TypeAlias = dict[str, dict[str, float]]
"""Call counts of each network's tasks, by workload hash."""


class NetworksFileError(UserError, ValueError):
    """The table of networks is invalid, or contradicts another one."""


def read_networks(dataset: Path) -> NetworkWeights:
    """Read the table of a dataset, or an empty one if the file does not exist; raises NetworksFileError."""
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
            f"{file}: {error}; expected the task hashes of each network with their call counts, as in "
            '{"resnet18": {"0123456789abcdef": 2}}'
        ) from error
    for name, tasks in networks.items():
        if not tasks or not all(weight > 0 for weight in tasks.values()):
            raise NetworksFileError(f"{file}: {name} needs tasks, each with a call count above 0")
    return networks


def merged_networks(tables: Iterable[Mapping[str, Mapping[str, float]]], where: Path) -> NetworkWeights:
    """Merge tables of networks; `where` is the dataset of the result.

    Raises NetworksFileError if a name has different tasks in two tables. The same network at another batch
    size, or extracted by another version, needs another name.
    """
    networks: NetworkWeights = {}
    for table in tables:
        for name, tasks in table.items():
            if networks.setdefault(name, dict(tasks)) != dict(tasks):
                raise NetworksFileError(
                    f"{where / NETWORKS_FILE}: network {name} has other tasks there, because of another "
                    "batch, other inputs or another version; use another name, as in "
                    f"networks=[{{network: {name}, name: {name}_b}}], or another dataset"
                )
    return networks


def write_networks(store: RecordStore, networks: Mapping[str, Mapping[str, float]]) -> None:
    """Write the table of a dataset atomically, inside `store.writing()`; raises StoreError."""
    store.put_file(NETWORKS_FILE, json.dumps(networks, indent=1, sort_keys=True).encode() + b"\n")
