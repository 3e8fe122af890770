"""Plot of a report with the busy cores over time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...figures import AFTER, BAD, BEFORE, GRID, HALF, INK, MUTED, PEER, canvas, fragment
from ...page import Plot
from ..run.core_timeline import ENGINES, STARTING, THIS, CoreSample, by_stage
from ..run.result import TuneResult
from .cores import parts_of

_COLOURS = {THIS: BEFORE, STARTING: BAD, "searching": AFTER, "measuring": PEER, ENGINES: MUTED}

_LEAST_SHARE = 0.03
"""Least share of the run for a stage's number in the timeline."""


def cores_plot(result: TuneResult) -> Plot | None:
    """Busy cores over the run by part, with the stages above; None without samples."""
    samples = result.cores
    if len(samples) < 2:
        return None
    parts = parts_of(samples)
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
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, borderaxespad=0)
        return Plot("Cores over time", caption, (fragment(figure, "cores", caption),))


def _numbers(samples: Sequence[CoreSample]) -> dict[str, int]:
    """Number of each stage, as in the table."""
    return {use.stage: number for number, use in enumerate(by_stage(samples), start=1)}


def _bands(samples: Sequence[CoreSample]) -> list[tuple[float, float, str]]:
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
