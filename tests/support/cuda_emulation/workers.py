"""Emulated devices in the measuring processes of an executor."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .compiler import Compiler

_SITE = Path(__file__).parent / "site"
_TESTS = Path(__file__).resolve().parents[2]


def worker_environment(cache: Path, devices: int, log: Path) -> dict[str, str]:
    """Variables by which processes of this one have emulated devices.

    Each program that a process loads for its device adds a line to `log`: process id and hash of its text.
    """
    paths = [str(_SITE), str(_TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    described = {"cache": str(cache), "devices": devices, "log": str(log)}
    libraries = [str(Compiler(cache).driver().parent), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    return {
        "PYTHONPATH": os.pathsep.join(paths),
        "LD_LIBRARY_PATH": os.pathsep.join(libraries),
        "CUDA_EMULATION": json.dumps(described),
    }


def install_in_worker(settings: Mapping[str, Any]) -> None:
    """Install the devices of `worker_environment`. Building leaves programs as text, as without a driver."""
    from .device import install

    emulation = install(Path(settings["cache"]), settings["devices"], build=False)

    def noted(source: str) -> str:
        with Path(settings["log"]).open("a") as log:
            log.write(f"{os.getpid()} {hashlib.sha256(source.encode()).hexdigest()[:16]}\n")
        return source

    emulation.edit = noted
