"""The table of contestants of a report, shared by the terminal and the page."""

from __future__ import annotations

from ...page import significant
from ..run.result import TUNED, UNTUNED, Contestant, TuneResult, comparable
from .quantities import duration, milliseconds
from .table import MISSING

HEADS = (
    "Contestant",
    "Median",
    "Over tuned",
    "Ready after",
    "Memory",
    "Difference",
    "Version",
    "Remark",
)
"""Titles of the columns."""

EXPLANATION = (
    "Each contestant runs in a process of its own, with as many threads as the others; they are timed in "
    "turns. Ready after: from the network to the end of the first run. Memory: the most that the process had "
    "resident. Difference: the largest of its outputs from the original's."
)


def ordered(result: TuneResult) -> list[Contestant]:
    """The tuned network, the rivals from the fastest on, the untuned network."""
    forms = [one for one in result.contestants if one.name in (TUNED, UNTUNED)]
    return [*forms[:1], *result.rivals(), *forms[1:]]


def contestant_rows(result: TuneResult) -> list[list[str]]:
    """A row a contestant."""
    best = result.best_rival()
    return [_row(result, one, one is best) for one in ordered(result)]


def _types_differ(result: TuneResult) -> bool:
    """Whether any contestant runs in another data type than float32."""
    return any(one.dtype not in ("", "float32") for one in result.contestants)


def left_out(result: TuneResult) -> list[str]:
    """A sentence for each rival that could not take part."""
    return [f"{title} is left out: {reason}." for title, reason in result.left_out.items()]


def _row(result: TuneResult, one: Contestant, best: bool) -> list[str]:
    tuned_s = result.median_s(TUNED)
    ratio = None
    if tuned_s is not None and comparable(one) and one.median_s is not None:
        ratio = one.median_s / tuned_s
    return [
        one.name,
        MISSING if one.median_s is None else milliseconds(one.median_s),
        MISSING if ratio is None else f"{significant(ratio)}x",
        MISSING if one.ready_s is None else duration(one.ready_s),
        MISSING if one.peak_mb is None else f"{one.peak_mb:,.0f} MB",
        MISSING if one.max_abs_difference is None else f"{one.max_abs_difference:.1e}",
        one.version or MISSING,
        _remark(one, best, _types_differ(result)),
    ]


def _remark(one: Contestant, best: bool, with_type: bool) -> str:
    said = [one.error] if one.error else []
    said += [f"in {one.dtype}"] if with_type and one.dtype else []
    said += ["disturbed"] if one.disturbed else []
    said += ["best rival"] if best else []
    said += [] if one.own_process else ["not in a process of its own"]
    return "; ".join(said)
