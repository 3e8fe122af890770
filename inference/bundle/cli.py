"""`foretune bundle`: write, import and show bundles of tuned schedules.

Each function receives the composed settings of its file in conf/ and returns the exit status: 0, or 1 if
nothing in a bundle is usable. They raise UserError.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ...configuration import from_hydra
from ...wording import milliseconds
from .format import Bundle, read_bundle

# Commands import their own dependencies, above all TVM, because such an import lasts seconds.


@dataclass(frozen=True)
class BundleImportConfig:
    """Fields of conf/bundle_import.yaml."""

    bundle: Path
    database: Path
    adapt: bool = False
    target: Any = None
    hardware: str = "here"


@dataclass(frozen=True)
class BundleShowConfig:
    """Fields of conf/bundle_show.yaml."""

    bundle: Path
    json: bool = False


def export(config: DictConfig) -> int:
    """Writes schedules of a tuning database as a bundle."""
    from .exporting import BundleExportConfig, export_bundle

    settings = from_hydra(config, BundleExportConfig)
    console = Console()
    report = export_bundle(**vars(settings), warn=lambda text: _say(console, f"[yellow]{escape(text)}"))
    for name in report.missing:
        _say(console, f"[yellow]{escape(name)}: has no schedule in the database; not exported")
    manifest = report.bundle.manifest
    _say(
        console,
        f"{escape(str(report.path))}: {len(report.bundle.records)} schedules of {len(manifest.tasks)} tasks, "
        f"{report.path.stat().st_size:,} bytes, for {escape(manifest.hardware.name)}",
    )
    return 0


def import_(config: DictConfig) -> int:
    """Adds a bundle to a tuning database; returns status 1 if none of its schedules is usable."""
    from .importing import LEFT_OUT, import_bundle

    settings = from_hydra(config, BundleImportConfig)
    console = Console()
    report = import_bundle(**vars(settings), warn=lambda text: _say(console, f"[yellow]{escape(text)}"))
    rows = [
        (
            *(task.name, task.operator, task.outcome, _latency(task.before_s), _latency(task.latency_s)),
            *(str(task.schedules or ""), str(task.left_out or "")),
        )
        for task in report.tasks
    ]
    console.print(_table(("task", "operator", "outcome", "before", "now", "taken", "left out"), rows))
    counts = ", ".join(f"{count} {outcome}" for outcome, count in report.outcomes.items())
    _say(console, f"{escape(str(report.folder))}: {counts or 'no tasks'}")
    if report.adapted:
        _say(console, "the next foretune tune measures the starting points first")
    return 0 if report.outcomes.keys() - {LEFT_OUT} else 1


def show(config: DictConfig) -> int:
    """Prints the content of a bundle."""
    settings = from_hydra(config, BundleShowConfig)
    bundle = read_bundle(settings.bundle)
    if settings.json:
        print(bundle.manifest.to_json(), end="")
        return 0
    console = Console()
    facts = Table.grid(padding=(0, 2))
    for label, value in _facts(bundle):
        facts.add_row(escape(label), escape(value))
    console.print(facts)
    rows = [
        (task.name, task.operator, _latency(task.latency_s), str(task.records))
        for task in bundle.manifest.tasks
    ]
    console.print(_table(("task", "operator", "latency", "schedules"), rows))
    return 0


def _facts(bundle: Bundle) -> list[tuple[str, str]]:
    manifest = bundle.manifest
    hardware = manifest.hardware
    return [
        ("schedules", f"{len(bundle.records)} of {len(manifest.tasks)} tasks"),
        *([("network", manifest.network)] if manifest.network else []),
        ("target", bundle.target_json),
        ("hardware", f"{hardware.name}, {hardware.cores} cores, hardware_id {hardware.hardware_id}"),
        ("versions", f"{_pairs(manifest.versions)}, schema {manifest.schema_version}"),
        ("made", manifest.made_at),
        ("SHA-256", f"{manifest.content_sha256} (checked)"),
    ]


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Table of texts without empty columns; cells in the first column may span several lines."""
    table = Table(box=box.SIMPLE)
    shown = [number for number in range(len(columns)) if any(row[number] for row in rows)]
    for number in shown:
        left = columns[number] in ("task", "operator", "outcome")
        table.add_column(
            columns[number], justify="left" if left else "right", no_wrap=number > 0, overflow="fold"
        )
    for row in rows:
        table.add_row(*(escape(row[number]) for number in shown))
    return table


def _latency(seconds: float | None) -> str:
    return "" if seconds is None else milliseconds(seconds)


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


def _say(console: Console, text: str) -> None:
    console.print(text, highlight=False, soft_wrap=True)
