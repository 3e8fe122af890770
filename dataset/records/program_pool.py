"""Pool of measured programs: the records of a dataset on one device, by task and trace.

Any dataset is a pool. `foretune generate` measures one, and `foretune dataset import` converts the database
of a tuning run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ...errors import UserError
from ..hardware import Hardware
from .schema import Record
from .store import RecordStore


class PoolError(UserError, ValueError):
    """A pool has no measured programs for the device, or lacks the requested ones."""


class ProgramPool:
    """Measured programs of one device."""

    def __init__(self, folder: str | Path, hardware: str = "") -> None:
        """Reads the records of a dataset.

        `hardware` is the id or the name of a device; "" selects the only device with records. Raises
        PoolError, and StoreError for a folder without a dataset, with a damaged shard or without the
        description of a device.
        """
        store = RecordStore(folder).require().require_intact()
        records = [record for record in store.records() if not record.simulated]
        described = store.hardware_of(record.hardware_id for record in records)
        chosen = [name for name, device in described.items() if hardware in ("", name, device.name)]
        if len(chosen) != 1:
            known = ", ".join(f"{name} ({device.name})" for name, device in described.items()) or "no device"
            raise PoolError(
                f"hardware={hardware!r} of the pool {folder}: name one of the devices that it has measured "
                f"programs of; it has {known}"
            )
        self.folder = Path(folder)
        self.hardware: Hardware = described[chosen[0]]
        """Device that measured the programs."""
        self._programs: defaultdict[str, dict[str, Record]] = defaultdict(dict)
        for record in records:
            if record.hardware_id == chosen[0]:
                self._programs[record.workload_hash].setdefault(record.trace, record)

    @property
    def workloads(self) -> list[str]:
        """Workload hashes of the tasks with programs."""
        return list(self._programs)

    def programs(self, workload: str) -> Mapping[str, Record]:
        """Records of a task by trace, including failed programs; empty for an unknown task."""
        return self._programs.get(workload, {})

    def slowest_s(self, workload: str) -> float | None:
        """Longest latency of a task in seconds; None if none of its programs ran."""
        ran = [record.latency_s for record in self.programs(workload).values() if record.run_secs]
        return max(ran, default=None)


PAUSE_S = 600.0
"""Seconds between two batches of a device above which the device counts as paused."""


def measuring_s(folder: Path) -> float:
    """Seconds of all devices together, without pauses; 0.0 for a folder without records.

    A batch has one timestamp, at its end, so the first batch of a device and the first after a pause count as
    zero.
    """
    columns = RecordStore(folder).columns("hardware_id", "timestamp")
    devices, when = (columns[name].to_numpy(zero_copy_only=False) for name in columns.column_names)
    found = 0.0
    for device in np.unique(devices):
        gaps = np.diff(np.sort(when[devices == device]))
        found += float(gaps[gaps <= PAUSE_S].sum())
    return found
