"""The report of a tuning run: a table in the terminal, a JSON file to keep, and a page to look at.

`python -m foretune.inference.report report.json` prints and writes a report again from its JSON file.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..errors import exits_cleanly
from .report_content import COLUMNS, WHOLE_NETWORK, Column, Row, facts, notes, rows
from .report_html import render_page
from .tune_result import TuneResult, load_result, save_result


class ReportPaths(NamedTuple):
    """The files of a report."""

    json: Path
    html: Path


def print_report(result: TuneResult, console: Console) -> None:
    """Prints the tasks, the ones with the largest share of time first, and what the run came to."""
    content = rows(result)
    columns = _fitting(content, console.width)
    table = Table(title=Text(f"{result.network} on {result.hardware}"), box=box.SIMPLE, show_footer=True)
    for column in columns:
        name = column is COLUMNS[0]
        table.add_column(
            Text(column.title.replace(" ", "\n")),
            footer=WHOLE_NETWORK if name else column.footer(content),
            justify="left" if name else "right",
            no_wrap=True,
            overflow="ellipsis",
            vertical="bottom",
        )
    for row in content:
        table.add_row(*(Text(column.cell(row)) for column in columns))
    console.print(table)
    for note in notes(result):
        console.print(Text(note, style="yellow"))
    lines = Table.grid(padding=(0, 2))
    for fact in facts(result):
        style = {None: "bold", True: "bold green", False: "bold red"}[fact.good]
        lines.add_row(Text(fact.label), Text(fact.value, style=style), Text(fact.detail, style="dim"))
    console.print(lines)


def print_profile(result: TuneResult, console: Console) -> None:
    """Prints where the time went: of the run, stage by stage, and of all its processes, step by step."""
    for title, seconds, total in (
        ("Wall time of the run", result.stage_s, result.total_s),
        ("Work of all processes", result.profile_s, sum(result.profile_s.values())),
    ):
        table = Table(title=title, box=box.SIMPLE)
        table.add_column("Step")
        table.add_column("Seconds", justify="right")
        table.add_column("Share", justify="right")
        for step, value in sorted(seconds.items(), key=lambda item: -item[1]):
            table.add_row(Text(step), f"{value:.2f}", f"{value / total:.1%}" if total else "")
        console.print(table)


def _fitting(content: list[Row], width: int) -> list[Column]:
    """The columns that a terminal has room for; the least telling ones give way first."""
    columns = list(COLUMNS)
    for dropped in ("Scored", "GFLOP", "Measured", "Weight", "Untuned ms"):
        needed = 1 + sum(_width(column, content) + 3 for column in columns)  # padding and rules
        if needed <= width:
            break
        columns = [column for column in columns if column.title != dropped]
    return columns


def _width(column: Column, content: list[Row]) -> int:
    """Characters that the column takes; a name longer than 28 is cut."""
    texts = [*column.title.split(), column.footer(content), *(column.cell(row) for row in content)]
    longest = max(map(len, texts))
    return min(longest, 28) if column is COLUMNS[0] else longest


def write_report(result: TuneResult, folder: Path) -> ReportPaths:
    """Writes `report.json` and `report.html` into `folder`, which is made if need be."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = ReportPaths(folder / "report.json", folder / "report.html")
    save_result(result, paths.json)
    paths.html.write_text(render_page(result), encoding="utf-8")
    return paths


@exits_cleanly()
def main(arguments: Sequence[str] | None = None) -> None:
    """Prints and writes a report again; `arguments` are the command line's unless given."""
    parser = argparse.ArgumentParser(
        prog="python -m foretune.inference.report",
        description="Print the report of a tuning run and write its page again.",
    )
    parser.add_argument("result", type=Path, help="the report.json of a tuning run")
    parser.add_argument("--output", type=Path, help="folder for the new files (default: that of report.json)")
    options = parser.parse_args(arguments)
    result = load_result(options.result)
    console = Console()
    print_report(result, console)
    paths = write_report(result, options.output or options.result.parent)
    console.print(Text(f"wrote {paths.json} and {paths.html}"), soft_wrap=True)


if __name__ == "__main__":
    main()
