"""Connection to a Ray cluster, which is started on this machine if no address is given, and its devices."""

from __future__ import annotations

import logging
import os
import socket
from collections import Counter

import ray

from ....compiler.tvm_compat import available_cores
from ....signals import keeps_handlers
from ..config import ExecutorConfigError

# Ray itself retries an unreachable address for minutes.
_CONNECT_TIMEOUT_S = 5.0


def connect(address: str | None) -> None:
    """Join the cluster at `address`, or start a local one if it is None; raises ExecutorConfigError."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Workers of a local cluster time programs, and Ray's default niceness for them is 15.
    os.environ.setdefault("RAY_worker_niceness", "0")
    _check_reachable(address)
    try:
        with keeps_handlers():
            _join(address)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ExecutorConfigError(
            f"executor=ray executor.address={address}: {error}; start a cluster by `ray start --head`, or "
            "leave the address null to start one on this machine"
        ) from error


def _join(address: str | None) -> None:
    if address is None:
        ray.init(
            num_cpus=available_cores(),
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.WARNING,
            _node_ip_address="127.0.0.1",
        )
    else:
        ray.init(address=address, log_to_driver=False, logging_level=logging.WARNING)


def _check_reachable(address: str | None) -> None:
    """Raise ExecutorConfigError if nothing listens at HOST:PORT; Ray checks other addresses."""
    host, _, port = (address or "").rpartition(":")
    if not host or not port.isdigit() or "://" in host:
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_TIMEOUT_S).close()
    except (OSError, OverflowError) as error:
        raise ExecutorConfigError(
            f"executor=ray executor.address={address}: nothing answers there ({error}); start a cluster by "
            "`ray start --head` and use its address, or leave it null to start one on this machine"
        ) from error


def devices_by_node(kind: str, cores: int) -> Counter[str]:
    """Number of devices of each live node: its GPUs, or 1 if it has the target's cores."""
    found: Counter[str] = Counter()
    for node in ray.nodes():
        if node["Alive"]:
            resources = node["Resources"]
            gpus = int(resources.get("GPU", 0))
            # Two programs timed on one node disturb each other, even if it has enough cores.
            found[node["NodeID"]] = gpus if kind == "cuda" else int(resources.get("CPU", 0) >= cores)
    return found


def cores_per_gpu(node: str) -> int:
    """CPU cores of a node for each of its GPUs, used to compile."""
    resources = next(found["Resources"] for found in ray.nodes() if found["NodeID"] == node)
    return max(1, int(resources.get("CPU", 1) / resources["GPU"]))
