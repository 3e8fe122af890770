"""Folders of a campaign, and the results in them.

work/results/BENCHMARK/MACHINE/    results of steps, complete or not
work/data/NAME/                    datasets that grow with each call
work/runs/STAGE-STEP/              runs, caches and checkpoints of unfinished steps
work/state.json                    number of calls, and the commit of the kept runs
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..common import ROOT, read_json, write_json

PARTS = ("results", "data", "runs")
"""Folders of `work`, the most valuable first: a full crate leaves out the last."""


@dataclass(frozen=True)
class Found:
    """Result of a step with its manifest."""

    folder: Path
    values: Mapping[str, Any]
    manifest: Mapping[str, Any]


@dataclass(frozen=True)
class Workspace:
    """Folders in which a campaign works, and into which its results land."""

    work: Path = ROOT / "outputs" / "campaign"
    results: Path = ROOT / "benchmarks" / "results"
    data: Path = ROOT / "data"
    dry_run: bool = False
    """Whether results of machines without a GPU count. They never leave this workspace."""
    state: dict[str, Any] = field(default_factory=dict)

    def dataset(self, name: str) -> Path:
        """Folder of a growing dataset; of the landed one if only that exists."""
        growing, landed = self.work / "data" / name, self.data / name
        return landed if landed.is_dir() and not growing.is_dir() else growing

    def found(self, benchmark: str, variant: str, device: str) -> Iterator[Found]:
        """Results of a benchmark on a kind of device: "cuda", "cpu-16" or "any"."""
        for root in (self.work / "results", *([] if self.dry_run else [self.results])):
            for path in sorted(root.glob(f"{benchmark}/*/result.json")):
                manifest = _manifest(path.parent)
                if manifest.get("variant") == variant and (self.dry_run or is_of(manifest, device)):
                    yield Found(path.parent, read_json(path), manifest)

    def read_state(self) -> dict[str, Any]:
        """Number of `calls`, and `commit`; empty before the first call."""
        path = self.work / "state.json"
        return read_json(path) if path.is_file() else {}

    def write_state(self, state: Mapping[str, Any]) -> None:
        """Replaces the state."""
        write_json(self.work / "state.json", state)


def is_of(manifest: Mapping[str, Any], device: str) -> bool:
    """Whether a result was measured on a kind of device."""
    hardware = manifest.get("hardware") or {}
    if device == "cuda":
        return bool(hardware.get("kind") == "cuda" and not str(hardware["name"]).startswith("dry run"))
    if device == "cpu-16":
        return bool(hardware.get("kind") == "cpu" and hardware.get("cores", 0) >= 16)
    return True


def _manifest(folder: Path) -> dict[str, Any]:
    try:
        return dict(read_json(folder / "manifest.json"))
    except (OSError, json.JSONDecodeError):
        return {}
