"""Connection to a Ray cluster, which is started on this machine if no address is given."""

from __future__ import annotations

import logging
import os
import socket

import ray

from ....compiler.tvm_compat import available_cores
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
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ExecutorConfigError(
            f"executor=ray executor.address={address}: {error}; start a cluster by `ray start --head`, or "
            "leave the address null to start one on this machine"
        ) from error


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
