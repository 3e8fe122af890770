"""Small parts of the repository's datasets."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from foretune.dataset.records.store import RecordStore


def small_dataset(source: Path, into: Path, *, tasks: int, records: int) -> None:
    """Writes the first records of the first tasks of a dataset into a new folder."""
    store, made = RecordStore(source).require(), RecordStore(into)
    kept = store.tasks()[:tasks]
    seen: Counter[str] = Counter()
    chosen = []
    for record in store.records([row.workload_hash for row in kept]):
        seen[record.workload_hash] += 1
        if seen[record.workload_hash] <= records:
            chosen.append(record)
    with made.writing():
        for hardware in store.hardware().values():
            made.put_hardware(hardware)
        made.append_tasks(kept)
        made.append_records(chosen)
        if (source / "networks.json").is_file():
            made.put_file("networks.json", (source / "networks.json").read_bytes())
