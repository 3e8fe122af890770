"""Output of an advice in the terminal."""

from __future__ import annotations

from dataclasses import replace

from rich.console import Console

from ....terminal import print_facts, print_table
from .content import Advice
from .tables import facts, sections


def print_advice(advice: Advice, console: Console) -> None:
    """Prints the tables, each with its note, and the key figures."""
    for table in sections(advice):
        title = f"{table.title}: {advice.network} on {advice.hardware}"
        print_table(replace(table, title=title), console, explained=True)
    print_facts(facts(advice), console)
