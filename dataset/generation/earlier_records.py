"""Records of a run's tasks that the dataset already contains at the start of the run."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection

import pyarrow.compute as pc

from ..records.schema import Record
from ..records.store import RecordStore


class EarlierRecords:
    """Counts of one device's records of some tasks, and the records of the unfinished tasks."""

    def __init__(
        self,
        store: RecordStore,
        workload_hashes: Collection[str],
        hardware_id: str,
        target: str,
        is_enough: Callable[[int, int], bool],
    ) -> None:
        """`is_enough(records, valid)` tells whether a task is done; records of others are loaded."""
        rows = store.columns("workload_hash", "hardware_id", "target", "failure")
        self.total = rows.num_rows
        """Number of records of the whole dataset."""
        self.total_valid = rows["failure"].null_count
        here = pc.and_(pc.equal(rows["hardware_id"], hardware_id), pc.equal(rows["target"], target))
        rows = rows.filter(here)
        counts = Counter(rows["workload_hash"].to_pylist())
        valid = Counter(rows.filter(pc.is_null(rows["failure"]))["workload_hash"].to_pylist())
        self.done = {name for name in workload_hashes if is_enough(counts[name], valid[name])}
        begun = {name for name in workload_hashes if counts[name]} - self.done
        self.begun = sum(counts[name] for name in begun)
        """Number of records of the unfinished tasks."""
        self._records: defaultdict[str, list[Record]] = defaultdict(list)
        for record in store.records(begun) if begun else []:
            if (record.hardware_id, record.target) == (hardware_id, target):
                self._records[record.workload_hash].append(record)

    def take(self, workload_hash: str) -> list[Record]:
        """Remove and return the records of an unfinished task, in the order of writing."""
        return self._records.pop(workload_hash, [])
