"""Commands that faults hit, the folder that they work in, and what they have stored there."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..forked_commands import CLI, TUNE

NETWORK = """
from torch import nn


class Tiny(nn.Sequential):
    def __init__(self, width=16):
        super().__init__(nn.Conv2d(16, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, 8, 1))


class Other(Tiny):
    def __init__(self):
        super().__init__(24)
"""

_GENERATE = (
    *("generate", "dataset=generated", "records_per_task=6", "per_round=3", "datasheet=false"),
    *("task_sampling.sampler=uniform", "task_sampling.operators={dense:1.0}", "task_sampling.max_flops=2e6"),
    *("program_sampling.scorer=random", "program_sampling.evolutionary.population_size=8"),
    *(
        "program_sampling.evolutionary.generations=1",
        "measure.repeats=2",
        "measure.groups=1",
        "noise.probe=false",
    ),
    *("workers=1", "samplers=1"),
)
_TRAIN = (
    *("train", "dataset=set", "model=mlp", "model.arguments.width=8", "data.batch_size=16", "data.rivals=4"),
    *("trainer.max_epochs=20", "trainer.patience=20", "hydra.run.dir=trained", "trainer.threads=1"),
)
_TUNE = (
    *(
        "tune",
        "inputs=[[1,16,12,12]]",
        "database=database",
        "rivals=[]",
        "timing_repeats=1",
        "checkpoint=cpu",
    ),
    *("search.top_k=2", "search.rounds=1", "search.strategy.population=64", "search.strategy.generations=1"),
    *("search.strategy.keep=8", "search.processes=1", "workers=1", "measure.repeats=1", "measure.groups=1"),
)


@dataclass(frozen=True)
class Subject:
    """A command with what it reads and stores below its folder."""

    words: Sequence[str]
    stored: Callable[[Path], set[Any]]
    """Stored items of a folder, without those that cannot be read."""
    reads: Sequence[str]
    """Patterns of files that a fault may damage."""
    preparation: Sequence[Sequence[str]]
    """Commands that fill the folder in which it begins."""
    imports: Sequence[str] = TUNE
    """Modules that a process imports before it forks the commands."""
    entry: str = CLI
    has_children: bool = False
    needs_resume: bool = False


def _records(folder: Path) -> set[Any]:
    from foretune.dataset.records.store import RecordStore

    return {record.key for record in RecordStore(folder / "generated").records()}


def _epochs(folder: Path) -> set[Any]:
    """Completed epochs that were not trained twice."""
    logs = sorted(
        (folder / "trained" / "log").glob("version_*/metrics.csv"), key=lambda path: path.stat().st_mtime
    )
    epochs = [{int(row["epoch"]) for row in csv.DictReader(log.open(encoding="utf-8"))} for log in logs]
    kept = _kept_epochs(folder / "trained" / "last.ckpt")
    repeated = set.intersection(*epochs[-2:]) if len(epochs) > 1 else set()
    return set(range(kept)) - repeated


def _kept_epochs(path: Path) -> int:
    import torch

    try:
        return int(torch.load(path, map_location="cpu", weights_only=True)["epoch"]) + 1
    except (OSError, RuntimeError, ValueError, EOFError, KeyError):
        return 0


def _lines_of(database: str) -> Callable[[Path], set[Any]]:
    def lines(folder: Path) -> set[Any]:
        found = set()
        for path in (folder / database).glob("*/database_tuning_record.json"):
            text = path.read_text(encoding="utf-8", errors="replace")
            found |= {
                (path.parent.name, line) for line in text.splitlines(keepends=True) if line.endswith("\n")
            }
        return found

    return lines


def _library(folder: Path) -> set[Any]:
    path = folder / "tiny.so"
    return {path.stat().st_size} if path.is_file() else set()


_TINY = (*_TUNE, "network=tiny_network:Tiny", "export=tiny.so", "output=before")

SUBJECTS = {
    "generate": Subject(
        (*_GENERATE, "tasks=3"),
        _records,
        ("generated/*.parquet", "generated/*.json"),
        ((*_GENERATE, "tasks=1"),),
        ("foretune.dataset.generate",),
        has_children=True,
    ),
    "train": Subject(
        _TRAIN,
        _epochs,
        ("set/*.parquet", "set/*.json", "cache/**/*.npz"),
        (_TRAIN,),
        ("foretune.training.train",),
        needs_resume=True,
    ),
    "tune": Subject(
        (*_TUNE, "network=tiny_network:Other", "output=report"),
        _lines_of("database"),
        ("database/*/*.json",),
        (_TINY,),
        has_children=True,
    ),
    "bundle": Subject(
        ("bundle", "import", "bundle=tiny.zip", "database=imported"),
        _lines_of("imported"),
        ("tiny.zip",),
        (_TINY, ("bundle", "export", "bundle=tiny.zip", "database=database")),
    ),
    "load": Subject(("tiny.so",), _library, ("tiny.so",), (_TINY,), entry="benchmarks.faults.loading:main"),
}


def make_inputs(folder: Path, dataset: Path) -> None:
    """Writes what the first commands read: a network, and a small part of a dataset."""
    (folder / "tiny_network.py").write_text(NETWORK, encoding="utf-8")
    _copy_part(dataset, folder / "set")


def forget_training(folder: Path) -> None:
    """Removes a prepared training, whose features stay in the cache."""
    shutil.rmtree(folder / "trained", ignore_errors=True)


def _copy_part(source: Path, into: Path, tasks: int = 6, records: int = 8) -> None:
    from foretune.dataset.records.store import RecordStore

    store, made = RecordStore(source).require(), RecordStore(into)
    rows = store.tasks()[:tasks]
    chosen = [record for row in rows for record in store.records([row.workload_hash])[:records]]
    with made.writing():
        for hardware in store.hardware_of({record.hardware_id for record in chosen}).values():
            made.put_hardware(hardware)
        made.append_tasks(rows)
        made.append_records(chosen)
