"""Runs of `foretune generate` on a dataset: their records, and the use of cores and devices.

The file `runs.json` of a dataset lists them, oldest first, for the datasheet.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..records.store import RecordStore

if TYPE_CHECKING:
    from .summary import GenerateSummary

RUNS_FILE = "runs.json"


@dataclass(frozen=True)
class GenerationRun:
    """Run with at least one measurement; shares refer to this machine's cores, by stage and idle.

    `seconds` leaves out the start-up. `cpu_s` are CPU seconds by stage. `device_share` is the part of the
    time in which devices ran programs.
    """

    ended_at: float
    seconds: float
    measured: int
    valid: int
    cpu_s: dict[str, float]
    core_shares: dict[str, float]
    device_share: float

    @classmethod
    def from_json(cls, values: Any) -> GenerationRun:
        """Raises TypeError or KeyError for other values."""
        return cls(**{field.name: values[field.name] for field in fields(cls)})


def store_run(store: RecordStore, summary: GenerateSummary) -> None:
    """Append a run to the file of its dataset, unless it measured nothing."""
    if not summary.measured:
        return
    run = GenerationRun(
        ended_at=time.time(),
        seconds=round(summary.working_s, 1),
        measured=summary.measured,
        valid=summary.valid,
        cpu_s={stage: round(seconds, 2) for stage, seconds in summary.cpu_s.items()},
        core_shares={stage: round(share, 4) for stage, share in summary.core_shares.items()},
        device_share=round(summary.device_share, 4),
    )
    runs = [asdict(one) for one in (*read_runs(store.folder), run)]
    store.put_file(RUNS_FILE, json.dumps(runs, indent=1).encode())


def read_runs(dataset: Path) -> list[GenerationRun]:
    """Runs of a dataset; none if the file is missing or unreadable."""
    try:
        listed = json.loads((dataset / RUNS_FILE).read_text(encoding="utf-8"))
        return [GenerationRun.from_json(values) for values in listed]
    except (OSError, ValueError, TypeError, KeyError):
        return []
