"""`foretune-dataset`: look at a dataset and check its shards."""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from ..errors import exits_cleanly
from .store import RecordStore


def inspect(folder: Path, console: Console) -> None:
    """Prints what a dataset holds: tasks and records by operator, failures, devices."""
    store = RecordStore(folder).require()
    tasks = {task.workload_hash: task for task in store.tasks()}
    records = store.records()
    table = Table("operator", "tasks", "records", "valid", "median score", title=str(folder))
    for column in table.columns[1:]:
        column.justify = "right"
    by_operator = Counter(task.operator for task in tasks.values())
    best: dict[str, float] = {}
    for record in records:
        best[record.workload_hash] = min(best.get(record.workload_hash, np.inf), record.latency_s)
    for operator, count in by_operator.most_common():
        rows = [record for record in records if tasks[record.workload_hash].operator == operator]
        valid = [record for record in rows if record.failure is None]
        scores = [best[record.workload_hash] / record.latency_s for record in valid]
        median = f"{np.median(scores):.2f}" if scores else "-"
        table.add_row(operator, str(count), str(len(rows)), str(len(valid)), median)
    console.print(table)
    measured = len({record.workload_hash for record in records})
    console.print(f"{len(records)} records of {measured} tasks, {len(tasks)} tasks in all")
    failures = Counter(record.failure.value for record in records if record.failure)
    console.print("failures: " + (", ".join(f"{n} {kind}" for kind, n in failures.most_common()) or "none"))
    for hardware_id, hardware in store.hardware().items():
        console.print(f"device {hardware_id}: {hardware.name}, {hardware.cores} cores", highlight=False)
    _say_bad_shards(store, console)


def verify(folder: Path, console: Console) -> int:
    """Reads every shard and prints the damaged ones; returns how many there are."""
    store = RecordStore(folder).require()
    tasks = len(store.tasks())
    damaged = _say_bad_shards(store, console)
    records = len(store.records())
    damaged += _say_bad_shards(store, console)
    console.print(f"{tasks} tasks and {records} records are whole; {damaged} damaged shards")
    return damaged


def _say_bad_shards(store: RecordStore, console: Console) -> int:
    for bad in store.bad_shards:
        console.print(f"[yellow]{bad.path}: {bad.reason}; foretune-generate sets it aside and measures again")
    return len(store.bad_shards)


@exits_cleanly()
def main(arguments: list[str] | None = None) -> None:
    """Entry of `foretune-dataset`."""
    parser = argparse.ArgumentParser(prog="foretune-dataset", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in (
        ("inspect", "what a dataset holds"),
        ("verify", "read every shard; status 1 when one is damaged"),
    ):
        commands.add_parser(name, help=text).add_argument("folder", type=Path)
    chosen = parser.parse_args(arguments)
    console = Console()
    if chosen.command == "inspect":
        inspect(chosen.folder, console)
    elif verify(chosen.folder, console):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
