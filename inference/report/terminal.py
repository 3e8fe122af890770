"""A report in the terminal: task table, contestants, summary, profile."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..run.result import TuneResult
from .alternatives import ALTERNATIVE_HEADS, ALTERNATIVE_TITLE, alternative_rows
from .contestants import HEADS, contestant_rows, left_out
from .facts import facts, notes
from .networks import NETWORK_HEADS, network_rows
from .reuse import REUSE_HEADS, REUSE_TITLE, reuse_rows
from .table import COLUMNS, MISSING, WHOLE_NETWORK, Column, Row, rows

NAME_WIDTH = 36
"""Characters of a task's name that are shown at most; the page has all of them."""


def print_report(result: TuneResult, console: Console) -> None:
    """Prints the task table, the notes, the contestants and the summary."""
    content = rows(result)
    columns = _fitting(content, console.width)
    table = Table(title=Text(f"{result.network} on {result.hardware}"), box=box.SIMPLE, show_footer=True)
    for column in columns:
        table.add_column(
            Text(column.title.replace(" ", "\n")),
            footer=_footer(column, content),
            justify="left" if column is COLUMNS[0] else "right",
            no_wrap=True,
            overflow="ellipsis",
            max_width=_width(column, content),  # a name of many operators would squeeze out the numbers
            vertical="bottom",
        )
    for row in content:
        table.add_row(*(Text(column.cell(row)) for column in columns))
    console.print(table)
    for note in notes(result):
        console.print(Text(note, style="yellow"))
    if networks := network_rows(result):
        console.print(_plain_table("Networks", NETWORK_HEADS, networks))
    if result.contestants:
        _print_contestants(result, console)
    for sentence in left_out(result):
        console.print(Text(sentence, style="yellow"))
    if alternatives := alternative_rows(result):
        console.print(_plain_table(ALTERNATIVE_TITLE, ALTERNATIVE_HEADS, alternatives, NAME_WIDTH))
    if tree := reuse_rows(result):
        console.print(_plain_table(REUSE_TITLE, REUSE_HEADS, tree))
    lines = Table.grid(padding=(0, 2))
    for fact in facts(result):
        style = {None: "bold", True: "bold green", False: "bold red"}[fact.good]
        lines.add_row(Text(fact.label), Text(fact.value, style=style), Text(fact.detail, style="dim"))
    console.print(lines)


def _print_contestants(result: TuneResult, console: Console) -> None:
    """Columns without a value in any row, and the versions, are left to the page."""
    content = contestant_rows(result)
    shown = [
        column
        for column, head in enumerate(HEADS)
        if head not in ("Difference", "Version") and any(row[column] not in ("", MISSING) for row in content)
    ]
    table = Table(box=box.SIMPLE)
    for column in shown:
        table.add_column(HEADS[column], justify="left" if column in (0, len(HEADS) - 1) else "right")
    for row in content:
        table.add_row(*(Text(row[column]) for column in shown))
    console.print(table)


def _plain_table(
    title: str, heads: Sequence[str], content: list[list[str]], most: int | None = None
) -> Table:
    """A table whose first and last columns give way where the terminal is narrow.

    The first one has at most `most` characters, None for no limit.
    """
    table = Table(title=title, box=box.SIMPLE)
    for number, head in enumerate(heads):
        width = max(len(cells[number]) for cells in [heads, *content])
        flexible = number == 0 or width > 20
        table.add_column(
            head,
            justify="left" if number < 2 or flexible else "right",
            no_wrap=not flexible or number == 0,
            overflow="ellipsis" if number == 0 else "fold",
            min_width=None if flexible else width,
            max_width=most if number == 0 else None,
        )
    for cells in content:
        table.add_row(*map(Text, cells))
    return table


def print_profile(result: TuneResult, console: Console) -> None:
    """Prints the wall time of the run by stage, and the work of all its processes by step."""
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
    """The columns that fit the terminal; the least informative ones are dropped first."""
    columns = list(COLUMNS)
    for dropped in ("Scored", "GFLOP", "Of peak", "Measured", "Weight", "Untuned ms"):
        needed = 1 + sum(_width(column, content) + 3 for column in columns)  # padding and rules
        if needed <= width:
            break
        columns = [column for column in columns if column.title != dropped]
    return columns


def _width(column: Column, content: list[Row]) -> int:
    """Width of the column in characters; names are cut."""
    texts = [*column.title.split(), _footer(column, content), *(column.cell(row) for row in content)]
    longest = max(map(len, texts))
    return min(longest, NAME_WIDTH) if column is COLUMNS[0] else longest


def _footer(column: Column, content: list[Row]) -> str:
    return WHOLE_NETWORK if column is COLUMNS[0] else column.footer(content)
