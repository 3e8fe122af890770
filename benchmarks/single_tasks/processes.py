"""Searches of one task, each in a process of a checkout."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tvm
from foretune.compiler.task import Task

from ..checkouts import python_in
from ..common import read_json

LIMIT_S = 900.0
"""Seconds after which a search is aborted."""


def task_file(folder: Path, name: str, task: Task) -> Path:
    """File in a folder from which `search` reads the task."""
    path = folder / "tasks" / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(tvm.ir.save_json(task.mod))
    return path


def search(checkout: Path, task: Path, seed: int, settings: Sequence[str]) -> dict[str, Any]:
    """Searches the task in a file; see `search.py` for the settings and the result."""
    load = os.getloadavg()[0]
    out = task.with_name(f".{task.stem}-{seed}.out.json")
    try:
        words = ["-m", "benchmarks.single_tasks.search", str(task), str(out), str(seed), *settings]
        python_in(checkout, words, timeout_s=LIMIT_S)
        return {"load_before": load, **read_json(out)}
    finally:
        out.unlink(missing_ok=True)
