"""Table of measurement itself, beside MetaSchedule's builder and runner."""

from __future__ import annotations

import statistics

from ..common import median_spread
from .reading import Results, duration, markdown, times_spread


def measuring(results: Results) -> str:
    """Candidates a second, and the start of MetaSchedule's builder."""
    rows = []
    for result in results.of("measurement_throughput"):
        ratios = [
            (task["foretune_valid"] / task["foretune_s"]) / (task["stock_valid"] / task["stock_s"])
            for task in result.values["tasks"]
        ]
        rows.append(
            [
                "valid candidates a second against LocalBuilder and LocalRunner, on the same candidates",
                result.machine,
                f"{times_spread(median_spread(ratios))}, median of {len(ratios)} tasks",
            ]
        )
    for result in results.of("builder_start"):
        median = {name: statistics.median(each) for name, each in result.values["seconds"].items()}
        rows.append(
            [
                "a batch of programs that take no time, by LocalBuilder with `initializer=prepare_builder`",
                result.machine,
                f"{duration(median['prepared'])}, {duration(median['as it is'])} without it; a build may "
                "take 30 s by default",
            ]
        )
    return markdown(["what", "machine", "measured"], rows)
