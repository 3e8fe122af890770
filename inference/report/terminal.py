"""A report in the terminal: tables, summary, profile."""

from __future__ import annotations

from dataclasses import replace

from rich.console import Console

from ...page import Table, columns
from ...terminal import print_facts, print_table
from ..run.result import TuneResult
from .alternatives import alternatives_table
from .contestants import contestants_table
from .cores import cores_table
from .facts import facts, notes
from .libraries import libraries_table
from .networks import networks_table
from .reuse import reuse_table
from .table import tasks_table


def print_report(result: TuneResult, console: Console) -> None:
    """Prints the tasks with notes, the networks of a set, the contestants and the summary."""
    tasks = tasks_table(result, notes(result))
    print_table(replace(tasks, title=f"{result.network} on {result.hardware}"), console)
    for table in (networks_table, contestants_table, libraries_table, alternatives_table, reuse_table):
        print_table(table(result), console)
    print_facts(facts(result), console)


def print_profile(result: TuneResult, console: Console) -> None:
    """Prints the use of the cores by stage of the run, and the work of all its processes by step."""
    print_table(cores_table(result), console)
    total = sum(result.profile_s.values())
    rows = [
        [step, f"{value:.2f}", f"{value / total:.1%}" if total else ""]
        for step, value in sorted(result.profile_s.items(), key=lambda item: -item[1])
    ]
    print_table(Table("Work of all processes", columns("Step", "Seconds", "Share"), rows), console)
