"""Ray clusters of tests, on this machine alone."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import pytest
from foretune.signals import keeps_handlers

from .torchless import without_torch


@contextmanager
def ray_cluster(torch: bool = False, **resources: Any) -> Iterator[None]:
    """A cluster with `num_cpus` and `num_gpus`, which ends with the block.

    Its processes find no `torch` unless asked for: only the peaks of a device are measured by it.
    """
    import ray

    # Ray puts its sockets into this folder, and a socket's path must be short.
    scratch = tempfile.TemporaryDirectory(prefix="r", ignore_cleanup_errors=True)
    with scratch as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_worker_niceness", "0")
        patch.setenv("HOME", _home())  # Ray stores the token that its processes share there
        if not torch:
            patch.setenv("PYTHONPATH", without_torch()["PYTHONPATH"])
        with keeps_handlers():  # all later tests of this process would hear SIGTERM as Ray does
            ray.init(
                **resources,
                include_dashboard=False,
                log_to_driver=False,
                object_store_memory=80 * 1024**2,
                _node_ip_address="127.0.0.1",
                _temp_dir=folder,
            )
        yield
        ray.shutdown()


@cache
def _home() -> str:
    """A folder for the token that Ray's processes share, which a process reads once for all its clusters."""
    return tempfile.mkdtemp(prefix="ray-home-")
