"""`foretune pretune`: stores the fastest program per task and target of datasets as starts of searches."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from omegaconf import DictConfig

from ..configuration import ConfigError, from_hydra
from ..files import check_writable
from ..terminal import CommandConsole, say
from ..wording import counted, shell_command


@dataclass(frozen=True)
class PretuneConfig:
    """Settings of `foretune pretune`; the fields are those in conf/pretune.yaml."""

    dataset: list[Path]
    into: Path
    leave_out: list[Path] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.dataset:
            raise ConfigError("dataset=[]: name the datasets whose fastest programs are kept")


def pretune(folders: Sequence[Path], into: Path, leave_out: Collection[str] = ()) -> int:
    """Writes the schedules of datasets to a file, and returns their number.

    `leave_out` contains hashes of shapes (`task_shapes`), such as the shapes of tasks on which the file is
    evaluated. Simulated records are ignored. Raises StoreError for a folder that is not a dataset or is
    damaged, and PretunedError if no schedule is left or the file cannot be written.
    """
    from ..dataset.records.schema import Record, TaskRow
    from ..dataset.records.store import RecordStore
    from ..dataset.records.stored_tasks import stored_task
    from ..dataset.records.task_shapes import shape_hash
    from .fasor.pretuned_schedules import PretunedError, PretunedSchedule, TaskKey, write_schedules

    check_writable(into, "into")
    tasks: dict[str, TaskRow] = {}
    fastest: dict[tuple[str, str], Record] = {}
    for folder in folders:
        store = RecordStore(folder).require().require_intact()
        for row in store.tasks():
            if shape_hash(row) not in leave_out:
                tasks.setdefault(row.workload_hash, row)
        for record in store.records():
            place = record.workload_hash, record.target
            if record.simulated or not record.run_secs or record.workload_hash not in tasks:
                continue
            if place not in fastest or record.latency_s < fastest[place].latency_s:
                fastest[place] = record
    if not fastest:
        raise PretunedError(
            f"dataset={','.join(map(str, folders))}: no program is left that ran; measure some with "
            "foretune generate"
        )
    keys = {name: TaskKey.of(stored_task(tasks[name])) for name in {name for name, _ in fastest}}
    schedules = [
        PretunedSchedule(
            name,
            keys[name].kernel_class,
            keys[name].attributes,
            target,
            record.hardware_id,
            record.latency_s,
            record.trace,
            tasks[name].tir,
        )
        for (name, target), record in fastest.items()
    ]
    write_schedules(into, schedules)
    return len(schedules)


def shapes_of(folders: Sequence[Path]) -> set[str]:
    """Hashes of the shapes of the tasks of datasets; raises StoreError."""
    from ..dataset.records.stored_tasks import stored_rows
    from ..dataset.records.task_shapes import shape_hash

    return {shape_hash(row) for folder in folders for row in stored_rows(folder)}


def main(config: DictConfig) -> int:
    """Entry point of `foretune pretune`."""
    settings = from_hydra(config, PretuneConfig)
    count = pretune(settings.dataset, settings.into, shapes_of(settings.leave_out))
    options = shell_command("search.starts=pretuned", f"search.pretuned.file={settings.into}")
    say(
        CommandConsole(),
        f"{settings.into}: {counted(count, 'schedule')}, {settings.into.stat().st_size:,} bytes; search with "
        f"them by {options}",
    )
    return 0
