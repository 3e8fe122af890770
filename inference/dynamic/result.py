"""Result of a tuning run of a network with dynamic shapes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.table import Table

from ...compiler.networks.dynamic.dynamic_inputs import sizes_text
from ...files import write_whole
from .families import PLAIN
from .rivals import RivalTimings

FILE = "dynamic.json"
"""Name of the result in the folder of the report."""


@dataclass(frozen=True)
class SizeResult:
    """Outputs and latency of the network at one size."""

    sizes: Mapping[str, int]
    """Value of each symbol."""
    max_abs_difference: float
    tolerance: float
    median_s: float
    """Median latency in this process, in seconds; other work on the machine disturbs it."""
    beyond: bool = False
    """Whether the size is outside of the ranges, where code without kernels runs."""

    def __str__(self) -> str:
        sizes = sizes_text(self.sizes)
        return f"{sizes} (beyond)" if self.beyond else sizes


@dataclass(frozen=True)
class DynamicResult:
    """Result of one tuning run."""

    network: str
    target: str
    symbols: Mapping[str, tuple[int, int]]
    """Smallest and largest value of each symbol."""
    sizes: tuple[SizeResult, ...]
    """Sizes at which the outputs were compared; all agree."""
    tasks: tuple[Mapping[str, Any], ...]
    """Description of each task with symbolic extents: its name, its kind, and how it chooses a kernel."""
    exported: str | None
    total_s: float
    stage_s: Mapping[str, float]
    versions: Mapping[str, str]
    started_at: str
    rivals: RivalTimings = field(default_factory=RivalTimings)
    """Latencies of the library and of the rivals that were asked for, in turns; empty without one."""

    @property
    def plain(self) -> list[str]:
        """Names of the tasks with symbolic extents that have a plain schedule."""
        return [str(task["name"]) for task in self.tasks if task["kind"] == PLAIN]

    def write(self, folder: Path) -> Path:
        """Writes the result as JSON and returns its path."""
        path = folder / FILE
        write_whole(path, json.dumps(asdict(self), indent=1) + "\n", field="output")
        return path

    def table(self) -> Table:
        """Sizes with differences and latencies."""
        table = Table(title=f"{self.network}, compared with the original")
        table.add_column("size")
        for title in ("difference", "tolerance", "ms"):
            table.add_column(title, justify="right")
        for one in self.sizes:
            table.add_row(
                str(one), f"{one.max_abs_difference:.2g}", f"{one.tolerance:.2g}", f"{1e3 * one.median_s:.3g}"
            )
        return table
