"""Tables of programs that are drawn for GPUs: how many are valid, and what sampling one costs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from .reading import Results, markdown, not_measured

COMMAND = "python -m benchmarks.gpu_draws"
SAMPLERS = {"metaschedule": "MetaSchedule's evolution, population 128", "rows": "evolution of legal rows"}


def passing(results: Results) -> str:
    """Legal rows that TVM's postprocessors accept, by target and data type."""
    for result in results.of("gpu_draws"):
        cells: defaultdict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
        for row in result.values["rows"]:
            cells[row["target"], row["dtype"]].append(row)
        heads = ["target", "type", "operator types", "replayed", "accepted", "least of an operator"]
        rows = [
            [
                *cell,
                str(len(each)),
                str(_sum(each, "replayed")),
                f"{_sum(each, 'passed') / _sum(each, 'replayed'):.1%}",
                f"{min(one['passed'] / max(one['replayed'], 1) for one in each):.0%}",
            ]
            for cell, each in cells.items()
        ]
        return markdown(heads, rows)
    return not_measured(COMMAND)


def sampling(results: Results) -> str:
    """Share of replayed candidates that pass, and CPU seconds of sampling a valid one."""
    for result in results.of("gpu_draws"):
        heads = ["type", "task", "sampler", "valid", "replayed", "accepted", "CPU s a valid program"]
        rows = [
            [
                one["dtype"],
                one["task"],
                SAMPLERS[one["sampler"]],
                str(one["valid"]),
                f"{one['replayed']:,}",
                f"{1 - one['rejected'] / max(one['replayed'], 1):.1%}",
                f"{one['cpu_s'] / max(one['valid'], 1):.2f}",
            ]
            for one in result.values["sampled"]
        ]
        return markdown(heads, rows)
    return not_measured(COMMAND)


def _sum(rows: Sequence[Mapping[str, Any]], name: str) -> int:
    return sum(row[name] for row in rows)
