"""Reaches a Ray cluster, or starts one on this machine."""

from __future__ import annotations

import logging
import os
import socket

import ray

from ..tvm_compat import available_cores
from .config import ExecutorConfigError

# Ray itself tries for minutes to reach an address where nothing is.
_CONNECT_TIMEOUT_S = 5.0


def connect(address: str | None) -> None:
    """Joins the cluster at an address, or starts one where it is None; raises ExecutorConfigError."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Of a cluster that starts here: Ray's workers have niceness 15 otherwise, and programs are timed in them.
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
            f"executor=ray executor.address={address}: {error}; start one by `ray start --head`, or leave "
            "the address null for one on this machine"
        ) from error


def _check_reachable(address: str | None) -> None:
    """Raises ExecutorConfigError where nothing listens at HOST:PORT; leaves other addresses to Ray."""
    host, _, port = (address or "").rpartition(":")
    if not host or not port.isdigit() or "://" in host:
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_TIMEOUT_S).close()
    except (OSError, OverflowError) as error:
        raise ExecutorConfigError(
            f"executor=ray executor.address={address}: nothing answers there ({error}); start a cluster by "
            "`ray start --head` and give the address that it prints, or leave it null for one on this machine"
        ) from error
