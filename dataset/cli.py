"""`foretune dataset`: look at datasets, check and merge them, exchange them, describe devices.

Each function receives the composed settings of its file in conf/ and returns the exit status: 0, or 1 for a
finding. They raise UserError.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from ..configuration import ConfigError, from_hydra
from ..terminal import CommandConsole, print_facts, print_table, say, short_path
from ..wording import counted, verb
from .records.store import RecordStore

# Commands import their own dependencies, above all TVM, because such an import lasts seconds.


@dataclass(frozen=True)
class DatasetInspectConfig:
    """Fields of conf/dataset_inspect.yaml."""

    dataset: Path
    tasks: bool = False


@dataclass(frozen=True)
class DatasetVerifyConfig:
    """Fields of conf/dataset_verify.yaml."""

    dataset: Path
    replay: int = 0

    def __post_init__(self) -> None:
        if self.replay < 0:
            raise ConfigError(f"replay={self.replay}: must be at least 0")


@dataclass(frozen=True)
class DatasetMergeConfig:
    """Fields of conf/dataset_merge.yaml."""

    dataset: list[Path]
    into: Path
    skip_damaged: bool = False


@dataclass(frozen=True)
class DatasetImportConfig:
    """Fields of conf/dataset_import.yaml."""

    database: Path
    into: Path
    target: Any = None
    hardware: str = "here"


@dataclass(frozen=True)
class DatasetExportConfig:
    """Fields of conf/dataset_export.yaml."""

    dataset: Path
    into: Path
    tasks: list[str] = field(default_factory=list)
    top: int | None = None

    def __post_init__(self) -> None:
        if self.top is not None and self.top < 1:
            raise ConfigError(f"top={self.top}: must be at least 1, or null for all")


@dataclass(frozen=True)
class DatasheetConfig:
    """Fields of conf/dataset_datasheet.yaml."""

    dataset: Path
    label_noise: Path | None = None


@dataclass(frozen=True)
class HardwareConfig:
    """Fields of conf/dataset_hardware.yaml."""

    name: str = "cpu"
    cores: int | None = None

    def __post_init__(self) -> None:
        if self.cores is not None and self.cores < 1:
            raise ConfigError(f"cores={self.cores}: must be at least 1, or null for all")


def inspect(config: DictConfig) -> int:
    """Prints the content of a dataset."""
    from .records.datasheet.content import facts, sections, tasks_section
    from .records.datasheet.overview import read_overview

    settings = from_hydra(config, DatasetInspectConfig)
    console = CommandConsole()
    overview = read_overview(RecordStore(settings.dataset))
    print_facts(facts(overview), console)
    for table in [tasks_section(overview)] if settings.tasks else sections(overview):
        print_table(table, console)
    for bad in overview.bad_shards:
        say(console, f"{short_path(bad.path)}: damaged, {bad.reason}; not counted", "yellow")
    return 0


def verify(config: DictConfig) -> int:
    """Prints every problem of a dataset; returns status 1 if there are any."""
    from .records.verification import problems

    settings = from_hydra(config, DatasetVerifyConfig)
    console = CommandConsole()
    store = RecordStore(settings.dataset).require()
    found = list(problems(store, settings.replay))
    for problem in found:
        say(console, problem, "red")
    records, tasks = len(store.columns("round")), len(store.tasks())
    verdict = counted(len(found), "problem") if found else "all is well"
    say(console, f"{counted(tasks, 'task')} and {counted(records, 'record')}; {verdict}")
    return 1 if found else 0


def merge(config: DictConfig) -> int:
    """Adds datasets to another."""
    from .records.merge import merge_datasets

    settings = from_hydra(config, DatasetMergeConfig)
    console = CommandConsole()
    target = RecordStore(settings.into)
    counts = merge_datasets(
        [RecordStore(folder) for folder in settings.dataset], target, skip_damaged=settings.skip_damaged
    )
    records, tasks = counted(counts.records, "record"), counted(counts.tasks, "task")
    known = f"{counted(counts.known, 'record')} {verb(counts.known, 'was', 'were')} known"
    devices = counted(counts.devices, "device")
    say(console, f"{settings.into}: {records}, {tasks} and {devices} added; {known}")
    return 0


def import_(config: DictConfig) -> int:
    """Adds a MetaSchedule database to a dataset."""
    from .records.exchange import import_database

    settings = from_hydra(config, DatasetImportConfig)
    console = CommandConsole()
    store = RecordStore(settings.into)
    counts = import_database(
        settings.database,
        store,
        hardware=settings.hardware,
        target=settings.target,
        warn=lambda text: say(console, text, "yellow"),
    )
    devices = ", ".join(hardware.name for hardware in store.hardware().values())
    parts = [f"{counted(counts.added, 'record')} added"]
    parts += [f"{counts.known:,} known"] if counts.known else []
    parts += [f"{counts.left_out:,} left out"] if counts.left_out else []
    say(console, f"{settings.into}: {', '.join(parts)}; its devices: {devices}")
    return 0 if counts.added + counts.known else 1


def export(config: DictConfig) -> int:
    """Writes a dataset as MetaSchedule databases."""
    from .records.database_export import export_database

    settings = from_hydra(config, DatasetExportConfig)
    console = CommandConsole()
    exported = export_database(
        RecordStore(settings.dataset).require(),
        settings.into,
        tasks=settings.tasks,
        top=settings.top,
        warn=lambda text: say(console, text, "yellow"),
    )
    for database in exported:
        records, tasks = counted(database.records, "record"), counted(database.tasks, "task")
        say(
            console,
            f"{database.folder}: {records} of {tasks}, target {database.target}, device "
            f"{database.hardware_id}",
        )
    return 0


def datasheet(config: DictConfig) -> int:
    """Writes the datasheet of a dataset."""
    from .records.datasheet.write import write_datasheet

    settings = from_hydra(config, DatasheetConfig)
    console = CommandConsole()
    path = write_datasheet(RecordStore(settings.dataset), label_noise=settings.label_noise)
    say(console, f"wrote {path} and {path.with_suffix('.html').name}")
    return 0


def hardware(config: DictConfig) -> int:
    """Prints the description of a device as JSON, ready for a file."""
    from .hardware import named_hardware, probe_cuda

    settings = from_hydra(config, HardwareConfig)
    if settings.name == "cpu":
        from ..compiler.tvm_compat import available_cores
        from .hardware.target_hardware import host_hardware

        found = host_hardware(settings.cores or available_cores())
    elif settings.name == "cuda":
        found = probe_cuda()
    else:
        found = named_hardware(settings.name)
    print(found.to_json(), end="")
    return 0
