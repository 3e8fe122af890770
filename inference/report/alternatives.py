"""Alternatives of a run in its report, shared by the terminal and the page: those that the network takes."""

from __future__ import annotations

from ...page import Fact, significant
from ..run.result import AlternativeResult, TuneResult
from .quantities import milliseconds
from .table import MISSING

ALTERNATIVE_HEADS = ("Algorithm", "Direct", "Instead", "Ratio", "Taken")
ALTERNATIVE_TITLE = "Algorithms"
ALTERNATIVE_NOTE = (
    "Another algorithm computes a piece of the network. Latencies are of one place: the sum of the tasks "
    "that it replaces (direct), and of those that take their place (instead). The network takes the faster "
    "one, at so many of the places that have the piece."
)


def alternative_rows(result: TuneResult) -> list[list[str]]:
    """Cells of each alternative under ALTERNATIVE_HEADS."""
    return [_row(one) for one in result.alternatives]


def alternative_facts(result: TuneResult) -> list[Fact]:
    """The line about alternatives; none for a run without."""
    found = result.alternatives
    if not found:
        return []
    saved_s = sum(
        one.taken * (one.direct_s - one.alternative_s)
        for one in found
        if one.taken and one.direct_s is not None and one.alternative_s is not None
    )
    taken = sum(one.taken for one in found)
    detail = f"taken at {taken} place{'s' * (taken != 1)}"
    detail += f", where they save {milliseconds(saved_s)} by their tasks" if saved_s else ""
    chosen = sum(one.taken > 0 for one in found)
    return [Fact("Algorithms", f"{chosen} of {len(found)} alternatives taken", detail)]


def _row(one: AlternativeResult) -> list[str]:
    ratio = None
    if one.direct_s is not None and one.alternative_s is not None:
        ratio = one.direct_s / one.alternative_s
    return [
        one.name,
        MISSING if one.direct_s is None else milliseconds(one.direct_s),
        MISSING if one.alternative_s is None else milliseconds(one.alternative_s),
        MISSING if ratio is None else f"{significant(ratio)}x",
        f"{one.taken} of {one.places}",
    ]
