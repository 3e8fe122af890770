"""Folders of a campaign, and which of its results are there.

work/results/BENCHMARK/MACHINE/    results of steps, finished or not
work/data/NAME/                    datasets that grow from call to call
work/runs/STAGE-STEP/              runs of unfinished steps, caches and checkpoints among them
work/state.json                    number of calls, and the commit by which runs are kept
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..common import ROOT, read_json, write_json

PARTS = ("results", "data", "runs")
"""Folders of `work` in the order of their worth, for a crate that is too small."""


@dataclass(frozen=True)
class Found:
    """Result of a step."""

    folder: Path
    values: Mapping[str, Any]
    manifest: Mapping[str, Any]


@dataclass(frozen=True)
class Workspace:
    """Where a campaign works, and where its results end up."""

    work: Path = ROOT / "outputs" / "campaign"
    results: Path = ROOT / "benchmarks" / "results"
    data: Path = ROOT / "data"
    dry_run: bool = False
    """Whether results of machines without a GPU count, which never leave this workspace."""
    state: dict[str, Any] = field(default_factory=dict)

    def dataset(self, name: str) -> Path:
        """Folder of a dataset: that which grows, the landed one, or the first where neither is there."""
        growing, landed = self.work / "data" / name, self.data / name
        return landed if landed.is_dir() and not growing.is_dir() else growing

    def found(self, benchmark: str, variant: str, device: str) -> Iterator[Found]:
        """Results of a benchmark on the kind of device: "cuda", "cpu-16" or "any"."""
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
        """Replaces what `read_state` gives."""
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
