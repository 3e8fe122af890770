"""Worker process: imports TVM once, then serves the operations of its role.

`WorkerProcess` starts it like `python -m foretune.dataset.measure.worker.main FD`, but without torch. A
candidate that crashes or hangs affects only this process.
"""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any

from tvm.target import Target

from ..job import MeasureConfig
from .loop import main
from .roles import Role

_ROLES = {
    "host": (".roles", "Host"),
    "compiler": (".roles", "Compiler"),
    "device": (".roles", "Device"),
    "rpc_device": ("..executors.rpc", "RpcDevice"),
    "dry_compiler": ("..executors.dry_run", "DryCompiler"),
    "dry_device": ("..executors.dry_run", "DryDevice"),
    "tile_timer": (".tile_timing", "TileTimer"),
}


def _make_role(role: str, target: str, config: dict[str, Any], settings: dict[str, Any]) -> Role:
    module, name = _ROLES[role]
    made: Role = getattr(import_module(module, __package__), name)(
        Target(json.loads(target)), MeasureConfig(**config), **settings
    )
    return made


if __name__ == "__main__":
    main(_make_role)
