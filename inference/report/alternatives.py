"""Alternatives in the report of a run: other algorithms for pieces of the network."""

from __future__ import annotations

from ...page import Column, Fact, Table
from ...wording import counted, milliseconds, part_of, times
from ..run.result import AlternativeResult, TuneResult

_COLUMNS = (
    Column("Algorithm", text=True),
    Column("Direct"),
    Column("Instead"),
    Column("Ratio"),
    Column("Taken"),
)


def alternatives_table(result: TuneResult) -> Table:
    """A row for each alternative."""
    return Table(
        "Algorithms",
        _COLUMNS,
        [_row(one) for one in result.alternatives],
        "Another algorithm computes a piece of the network. Latencies are of one place in the network: the "
        "sum of the tasks that it replaces (direct), and of the tasks that replace them (instead). Taken "
        "counts the places where the network uses the alternative, out of all places that have the piece.",
    )


def alternative_facts(result: TuneResult) -> list[Fact]:
    """The line about alternatives, if the run has any."""
    found = result.alternatives
    if not found:
        return []
    saved_s = sum(
        one.taken * (one.direct_s - one.alternative_s)
        for one in found
        if one.taken and one.direct_s is not None and one.alternative_s is not None
    )
    chosen = sum(one.taken > 0 for one in found)
    detail = f"taken at {counted(sum(one.taken for one in found), 'place')}" if chosen else ""
    detail += f", where their tasks save {milliseconds(saved_s)}" if saved_s > 0 else ""
    return [Fact("Algorithms", f"{part_of(chosen, len(found), 'alternative')} taken", detail)]


def _row(one: AlternativeResult) -> list[str]:
    ratio = None
    if one.direct_s is not None and one.alternative_s is not None:
        ratio = one.direct_s / one.alternative_s
    return [
        one.name,
        milliseconds(one.direct_s),
        milliseconds(one.alternative_s),
        times(ratio),
        f"{one.taken} of {one.places}",
    ]
