"""An advice in the terminal."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .content import Advice
from .tables import facts, sections


def print_advice(advice: Advice, console: Console) -> None:
    """Prints the tables, each with its note below, and the key figures."""
    for section in sections(advice):
        table = Table(title=Text(f"{section.title}: {advice.network} on {advice.hardware}"), box=box.SIMPLE)
        for number, column in enumerate(section.columns):
            table.add_column(column, justify="right" if number else "left", no_wrap=True)
        for row in section.rows:
            table.add_row(*(Text(cell) for cell in row))
        console.print(table)
        console.print(section.note, highlight=False, markup=False)
    for fact in facts(advice):
        console.print(f"{fact.label}: {fact.value} ({fact.detail})", highlight=False, markup=False)
