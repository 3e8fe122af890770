"""Libraries that a run wrote before its end, in the report."""

from __future__ import annotations

from ...page import Table, columns
from ...wording import MISSING, duration, milliseconds, times
from ..run.result import TUNED, TuneResult

MARKS = "Triangles are libraries that were written during the search, with their own latency."
"""Sentence about the marks in the tuning curve."""


def libraries_table(result: TuneResult) -> Table:
    """A row for each library that the run wrote; empty for a run that wrote only one."""
    latencies_s = [one.latency_s for one in result.libraries]
    if latencies_s and latencies_s[-1] is None:
        latencies_s[-1] = result.median_s(TUNED)
    first_s = next(iter(latencies_s), None)
    rows = [
        [
            str(number),
            duration(one.after_s),
            milliseconds(latency_s),
            MISSING if latency_s is None or first_s is None else times(first_s / latency_s),
        ]
        for number, (one, latency_s) in enumerate(zip(result.libraries, latencies_s, strict=True), start=1)
    ]
    return Table(
        "Libraries",
        columns("Library", "Written after", "Latency", "Over the first"),
        rows if len(rows) > 1 else [],
        "Each library replaced the one before, after its outputs were compared. The last latency is the one "
        "of the contestants; the others were timed between two rounds of the search.",
    )


def library_points(result: TuneResult) -> list[tuple[float, float]]:
    """Seconds since the start and latency in seconds of each library that was timed during the search."""
    return [(one.after_s, one.latency_s) for one in result.libraries if one.latency_s is not None]
