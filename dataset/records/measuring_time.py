"""Duration of the measurement of a dataset, from the timestamps of its records."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from .store import RecordStore

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
