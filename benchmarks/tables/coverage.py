"""Table of the sweep over public networks."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from .reading import Result, Results, duration, joined, markdown, not_measured

COMMAND = "python -m benchmarks.coverage"

Row = Mapping[str, Any]


def coverage(results: Results) -> str:
    """One row a machine and family, and what failed."""
    found = results.of("coverage")
    if not found:
        return not_measured(COMMAND)
    return "\n\n".join(_table(result) for result in found)


def _table(result: Result) -> str:
    rows: Sequence[Row] = result.values["rows"]
    families = {row["family"]: [one for one in rows if one["family"] == row["family"]] for row in rows}
    body = [_cells(family, ours) for family, ours in families.items()]
    body.append(_cells("all", rows))
    heads = ["family", "zoos", "networks", "passed", "tasks", "seconds"]
    failed = [[row["network"], row["step"], _short(row["cause"])] for row in rows if not row["passed"]]
    table = markdown(heads, body, _note(result))
    if failed:
        table += "\n\n" + markdown(["network", "failed in", "cause"], failed)
    return table


def _cells(family: str, rows: Sequence[Row]) -> list[str]:
    passed = [row for row in rows if row["passed"]]
    zoos = Counter(row["zoo"] for row in rows)
    seconds = statistics.median(row["seconds"] for row in rows)
    return [
        family,
        ", ".join(f"{zoo} {count}" for zoo, count in zoos.most_common()),
        str(len(rows)),
        f"{len(passed)} ({len(passed) / len(rows):.0%})",
        f"{statistics.median(row['tasks'] for row in passed):.0f}" if passed else "-",
        duration(seconds),
    ]


def _note(result: Result) -> str:
    values = result.values
    said = (
        f"{result.machine}, {result.date}. A network passes if its outputs are those of PyTorch within "
        "0.01 % of the largest. Each has a process of its own with the models' first choice for each task "
        f"(`{' '.join(values['overrides'])}`), at most {values['limit_s']:.0f} s and "
        f"{values['limit_mb']:,.0f} MB. Tasks and seconds are medians."
    )
    if recast := sorted({text for row in values["rows"] for text in row.get("recast", [])}):
        said += f" Run in another data type: {joined(recast)}."
    if values["pending"]:
        said += f" Not run yet: {joined(values['pending'])}."
    if values["missing_zoos"]:
        said += f" Not installed: {joined(values['missing_zoos'])}."
    not_counted = [f"{name} ({reason})" for name, reason in values["not_counted"].items()]
    return f"{said} Not counted: {joined(not_counted)}."


def _short(cause: str) -> str:
    """The cause on one line of a table."""
    text = " ".join(cause.split()).replace("|", "/")
    return text if len(text) <= 240 else f"{text[:237]}..."
