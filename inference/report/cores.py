"""Use of the cores in a report: a timeline, and a table by stage."""

from __future__ import annotations

import numpy as np

from ...dataset.generation.core_use import IDLE
from ...figures import AFTER, BEFORE, GRID, HALF, INK, MUTED, PEER, canvas, fragment
from ...page import Plot, Table, columns
from ...wording import counted
from ..run.core_timeline import ENGINES, THIS, CoreSample, by_stage
from ..run.result import TuneResult

_COLOURS = {THIS: BEFORE, "searching": AFTER, "measuring": PEER, ENGINES: MUTED}

BETWEEN = "between stages"

_LEAST_SHARE = 0.03
"""Least share of the run for a stage's number in the timeline."""


def cores_plot(result: TuneResult) -> Plot | None:
    """Busy cores over the run by part, with the stages above; None without samples."""
    samples = result.cores
    if len(samples) < 2:
        return None
    parts = _parts(samples)
    ends = np.array([0.0, *(sample.until_s for sample in samples)])
    lengths = np.maximum(np.diff(ends), 1e-9)
    busy = np.array([[sample.busy_s.get(part, 0.0) for sample in samples] for part in parts]) / lengths
    caption = (
        "Cores that the processes of the run keep busy. Numbers are stages of the run, as in the table "
        "Cores by stage. The line is all cores."
    )
    numbers = _numbers(samples)
    with canvas(HALF, 3.6) as figure:
        axes = figure.subplots()
        below = np.zeros(len(samples))
        for part, height in zip(parts, busy, strict=True):
            axes.stairs(below + height, ends, baseline=below, fill=True, color=_COLOURS.get(part), label=part)
            below = below + height
        axes.set_ylim(0, 1.2 * result.available_cores)
        axes.set_xlim(0, ends[-1])
        axes.axhline(result.available_cores, color=INK, linewidth=1)
        for start, end, stage in _bands(samples):
            axes.axvline(end, color=GRID, linewidth=0.8)
            if end - start >= _LEAST_SHARE * ends[-1]:
                at = (start + end) / 2, 1.1 * result.available_cores
                axes.text(*at, str(numbers[stage]), color=INK, ha="center", va="center")
        axes.set_xlabel("seconds since the start")
        axes.set_ylabel("busy cores")
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=len(parts), borderaxespad=0)
        return Plot("Cores over time", caption, (fragment(figure, "cores", caption),))


def cores_table(result: TuneResult) -> Table:
    """Seconds of the cores by stage and part; rows add up to the wall time of all cores."""
    parts = _parts(result.cores)
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


def _parts(samples: list[CoreSample]) -> list[str]:
    """Parts with work, in a fixed order."""
    found = {part for sample in samples for part, seconds in sample.busy_s.items() if seconds}
    return [part for part in _COLOURS if part in found] + sorted(found - set(_COLOURS))


def _numbers(samples: list[CoreSample]) -> dict[str, int]:
    """Number of each stage, as in the table."""
    return {use.stage: number for number, use in enumerate(by_stage(samples), start=1)}


def _bands(samples: list[CoreSample]) -> list[tuple[float, float, str]]:
    """Start, end and name of each stretch of samples in one stage."""
    bands: list[tuple[float, float, str]] = []
    start = 0.0
    for sample in samples:
        if bands and bands[-1][2] == sample.stage:
            bands[-1] = (bands[-1][0], sample.until_s, sample.stage)
        else:
            bands.append((start, sample.until_s, sample.stage))
        start = sample.until_s
    return bands
