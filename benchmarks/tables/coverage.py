"""Table of the sweep over public networks."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from .reading import Result, Results, duration, joined, markdown, not_measured

COMMAND = "python -m benchmarks.coverage"

Row = Mapping[str, Any]

TO_TASKS, CHECK = "network to tasks", "check that TVM builds it"

STEPS = {
    TO_TASKS: "network to tasks",
    "torch.export": "of it export",
    "conversion to Relax": "of it conversion to Relax",
    "lowering to TIR": "of it lowering to TIR",
    CHECK: "of it the check that TVM builds code",
    "search and measure": "search",
    "compile": "compile",
    "check outputs": "outputs of PyTorch and ours",
}
"""Steps of a row's `stage_s`, as the table calls them."""


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
    return f"{table}\n\n{_steps(rows)}"


def _steps(rows: Sequence[Row]) -> str:
    """Seconds of each step over the networks that passed."""
    clocks = [row["stage_s"] for row in rows if row["passed"]]
    body = []
    for step, text in STEPS.items():
        seconds = [clock[step] for clock in clocks if step in clock]
        if seconds:
            body.append([text, duration(statistics.median(seconds)), duration(max(seconds))])
    shares = [clock[CHECK] / clock[TO_TASKS] for clock in clocks if clock.get(TO_TASKS) and CHECK in clock]
    note = f"The check takes {statistics.median(shares):.0%} of the time to tasks (median)." if shares else ""
    return markdown(["step", "median", "most"], body, note) if body else ""


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
        "0.01 % of the largest. Each has a process of its own with a short search that measures nothing "
        f"(`{' '.join(values['overrides'])}`), at most {values['limit_s']:.0f} s and "
        f"{values['limit_mb']:,.0f} MB. Tasks and seconds are medians."
    )
    if recast := sorted({text for row in values["rows"] for text in row.get("recast", [])}):
        said += f" Run in another data type: {joined(recast)}."
    if values["pending"]:
        waiting, rows = len(values["pending"]), len(values["rows"])
        said += f" Not run yet: {waiting} of {waiting + rows} networks of the list."
    if values["missing_zoos"]:
        said += f" Not installed: {joined(values['missing_zoos'])}."
    not_counted = [f"{name} ({reason})" for name, reason in values["not_counted"].items()]
    return f"{said} Not counted: {joined(not_counted)}."


def _short(cause: str) -> str:
    """The cause on one line of a table."""
    text = " ".join(cause.split()).replace("|", "/")
    return text if len(text) <= 240 else f"{text[:237]}..."
