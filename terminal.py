"""Parts of a page in a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich import table as rich_table
from rich.console import Console
from rich.text import Text

from .page import Fact, Table

NAME_WIDTH = 36
"""Characters of a row's name before a narrow terminal drops columns."""

_LEAST_NAME = 10
_LEAST_TEXT = 20
_BETWEEN = 3
"""Characters between two columns."""


def print_facts(facts: Sequence[Fact], console: Console) -> None:
    """Prints facts line by line."""
    lines = rich_table.Table.grid(padding=(0, 2))
    for fact in facts:
        style = {None: "bold", True: "bold green", False: "bold red"}[fact.good]
        lines.add_row(Text(fact.label), Text(fact.value, style=style), Text(fact.detail, style="dim"))
    console.print(lines)


def print_table(table: Table, console: Console, explained: bool = False) -> None:
    """Prints a table that has rows, with its remarks, and with its note if it is to be explained.

    A narrow terminal drops the columns with a figure in `Column.drop`, then cuts the names of the rows.
    """
    if not table:
        return
    shown = [number for number in table.shown if table.columns[number].terminal]
    first, *others = _fitting(table, shown, console.width)
    printed = rich_table.Table(title=Text(table.title), box=box.SIMPLE, show_footer=bool(table.total))
    left = console.width - _BETWEEN - sum(_needed(table, number) + _BETWEEN for number in others)
    for number in (first, *others):
        column, width = table.columns[number], _width(table, number)
        wraps = column.text and width > _LEAST_TEXT and number != first
        printed.add_column(
            Text(column.title if column.text else column.title.replace(" ", "\n")),
            footer=Text(table.total[number]) if table.total else "",
            justify="left" if column.text else "right",
            no_wrap=not wraps,
            overflow="ellipsis" if number == first else "fold",
            min_width=None if number == first or wraps else width,
            max_width=max(left, _LEAST_NAME) if number == first else None,
            vertical="bottom" if number == first else "top",
        )
    for row in table.rows:
        printed.add_row(*(Text(row[number]) for number in (first, *others)))
    console.print(printed)
    for remark in table.remarks:
        console.print(Text(remark, style="yellow"))
    if explained and table.note:
        console.print(Text(table.note))


def _fitting(table: Table, shown: list[int], width: int) -> list[int]:
    """The columns that fit into the width with names of up to NAME_WIDTH characters."""
    droppable = [number for number in shown if table.columns[number].drop]
    for dropped in [None, *sorted(droppable, key=lambda number: table.columns[number].drop)]:
        shown = [number for number in shown if number != dropped]
        name, *others = (_needed(table, number) for number in shown)
        if sum(others) + min(name, NAME_WIDTH) + _BETWEEN * len(shown) < width:
            break
    return shown


def _needed(table: Table, number: int) -> int:
    """Characters that a column needs; text may wrap."""
    width = _width(table, number)
    return min(width, _LEAST_TEXT) if table.columns[number].text and number else width


def _width(table: Table, number: int) -> int:
    column = table.columns[number]
    heads = [column.title] if column.text else column.title.split()
    return max(len(text) for text in [*heads, *(row[number] for row in [*table.rows, table.total] if row)])
