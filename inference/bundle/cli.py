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

from ...configuration import from_hydra
from ...page import Column, Fact, Table
from ...terminal import CommandConsole, print_facts, print_table, say
from ...wording import counted, milliseconds
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
    console = CommandConsole()
    report = export_bundle(**vars(settings), warn=lambda text: say(console, text, "yellow"))
    for name in report.missing:
        say(console, f"{name}: was not searched in this database; not exported", "yellow")
    manifest = report.bundle.manifest
    schedules = counted(len(report.bundle.records), "schedule")
    further = "".join(f", {text}" for _, text in _further(report.bundle))
    untuned = f", {counted(len(manifest.decided), 'task')} without a schedule" if manifest.decided else ""
    say(
        console,
        f"{report.path}: {schedules} of {counted(len(manifest.tasks), 'task')}{further}{untuned}, "
        f"{report.path.stat().st_size:,} bytes, for {manifest.hardware.name}",
    )
    return 0


def import_(config: DictConfig) -> int:
    """Adds a bundle to a tuning database; returns status 1 if none of its schedules is usable."""
    from .importing import LEFT_OUT, import_bundle

    settings = from_hydra(config, BundleImportConfig)
    console = CommandConsole()
    report = import_bundle(**vars(settings), warn=lambda text: say(console, text, "yellow"))
    rows = [
        (
            *(task.name, task.operator, task.outcome, _latency(task.before_s), _latency(task.latency_s)),
            *(str(task.schedules or ""), str(task.left_out or "")),
        )
        for task in report.tasks
    ]
    print_table(_table(("task", "operator", "outcome", "before", "now", "taken", "left out"), rows), console)
    counts = ", ".join(f"{count} {outcome}" for outcome, count in report.outcomes.items())
    say(console, f"{report.folder}: {counts or 'no tasks'}")
    if report.adapted:
        say(console, "the next foretune tune measures the starting points first")
    return 0 if report.outcomes.keys() - {LEFT_OUT} else 1


def show(config: DictConfig) -> int:
    """Prints the content of a bundle."""
    settings = from_hydra(config, BundleShowConfig)
    bundle = read_bundle(settings.bundle)
    if settings.json:
        print(bundle.manifest.to_json(), end="")
        return 0
    console = CommandConsole()
    print_facts([Fact(label, value, "") for label, value in _facts(bundle)], console)
    rows = [
        (task.name, task.operator, _latency(task.latency_s), str(task.records), "")
        for task in bundle.manifest.tasks
    ]
    rows += [
        (note.name or note.workload_hash, "", _latency(note.untuned_s), "", note.decided)
        for note in bundle.manifest.decided
    ]
    print_table(_table(("task", "operator", "latency", "schedules", "untuned because"), rows), console)
    return 0


def _facts(bundle: Bundle) -> list[tuple[str, str]]:
    manifest = bundle.manifest
    hardware = manifest.hardware
    return [
        ("schedules", f"{len(bundle.records):,} of {counted(len(manifest.tasks), 'task')}"),
        *_further(bundle),
        *([("network", manifest.network)] if manifest.network else []),
        ("target", bundle.target_json),
        (
            "hardware",
            f"{hardware.name}, {counted(hardware.cores, 'core')}, hardware_id {hardware.hardware_id}",
        ),
        ("versions", f"{_pairs(manifest.versions)}, schema {manifest.schema_version}"),
        ("made", manifest.made_at),
        ("SHA-256", f"{manifest.content_sha256} (checked)"),
    ]


def _further(bundle: Bundle) -> list[tuple[str, str]]:
    """Labels and numbers of further parts of a bundle, without empty ones."""
    found = [
        ("predicted", "predicted schedule", bundle.predicted),
        ("templates", "GPU template", bundle.templates),
        ("dynamic shapes", "measured kernel", bundle.kernels),
    ]
    return [(label, counted(len(of), noun)) for label, noun, of in found if of]


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Table of texts without empty columns."""
    texts = ("task", "operator", "outcome", "untuned because")
    return Table("", [Column(title, text=title in texts, optional=True) for title in titles], rows)


def _latency(seconds: float | None) -> str:
    return "" if seconds is None else milliseconds(seconds)


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())
