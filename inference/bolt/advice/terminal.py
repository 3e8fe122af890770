"""An advice in the terminal."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .content import Advice
from .tables import facts, sections

_BETWEEN = 3
"""Characters between two columns."""

_LEAST = 10
"""Characters of a layer's name that are always shown."""


def print_advice(advice: Advice, console: Console) -> None:
    """Prints the tables, each with its note below, and the key figures."""
    for section in sections(advice):
        table = Table(title=Text(f"{section.title}: {advice.network} on {advice.hardware}"), box=box.SIMPLE)
        first, *others = section.columns
        columns = list(zip(section.columns, *section.rows, strict=True))
        widths = [max(map(len, column)) for column in columns[1:]]
        # A narrow terminal cuts off the names of layers alone.
        left = console.width - sum(width + _BETWEEN for width in widths) - _BETWEEN
        table.add_column(first, no_wrap=True, max_width=max(left, _LEAST))
        for column, width in zip(others, widths, strict=True):
            table.add_column(column, justify="right", no_wrap=True, min_width=width)
        for row in section.rows:
            table.add_row(*(Text(cell) for cell in row))
        console.print(table)
        console.print(section.note, highlight=False, markup=False)
    for fact in facts(advice):
        console.print(f"{fact.label}: {fact.value} ({fact.detail})", highlight=False, markup=False)
