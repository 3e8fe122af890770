"""Table of a report with the use of the cores by stage."""

from __future__ import annotations

from collections.abc import Sequence

from ...dataset.generation.core_use import IDLE
from ...page import Table, columns
from ...wording import counted
from ..run.core_timeline import ENGINES, STARTING, THIS, CoreSample, by_stage
from ..run.result import TuneResult

PARTS = (THIS, STARTING, "searching", "measuring", ENGINES)
"""Parts of a run in the order of the columns; others follow."""

BETWEEN = "between stages"


def cores_table(result: TuneResult) -> Table:
    """Seconds of the cores by stage and part; rows add up to the wall time of all cores."""
    parts = parts_of(result.cores)
    cores = result.available_cores
    rows = [
        [
            f"{number} {use.stage or BETWEEN}",
            f"{use.wall_s:.1f}",
            *(f"{use.busy_s.get(part, 0.0):.1f}" for part in parts),
            f"{use.idle_s(cores):.1f}",
        ]
        for number, use in enumerate(by_stage(result.cores), start=1)
    ]
    return Table(
        "Cores by stage",
        columns("Stage", "wall", *parts, IDLE),
        rows,
        f"Seconds of the wall clock, and CPU seconds by part of the run. The parts and {IDLE} add up to "
        f"the wall time of {counted(cores, 'core')}.",
    )


def parts_of(samples: Sequence[CoreSample]) -> list[str]:
    """Parts with work, in a fixed order."""
    found = {part for sample in samples for part, seconds in sample.busy_s.items() if seconds}
    return [part for part in PARTS if part in found] + sorted(found - set(PARTS))
