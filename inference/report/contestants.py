"""Contestants of a report: the forms of the network and its rivals."""

from __future__ import annotations

from ...page import Column, Table
from ...wording import MISSING, difference, duration, milliseconds, times
from ..run.result import TUNED, UNTUNED, Contestant, TuneResult, comparable

_COLUMNS = (
    Column("Contestant", text=True),
    Column("Median"),
    Column("Over tuned"),
    Column("Ready after", optional=True),
    Column("Memory", optional=True),
    Column("Difference", optional=True, terminal=False),
    Column("Version", optional=True, terminal=False),
    Column("Remark", text=True, optional=True),
)

_NOTE = (
    "Each contestant runs in a process of its own with the same number of threads; they are timed in turns. "
    "Ready after is the time from the network to the end of its first run. Memory is the largest resident "
    "memory of the process. Difference is the largest difference of its outputs from the original's."
)


def ordered(result: TuneResult) -> list[Contestant]:
    """The tuned network, the rivals from fastest to slowest, the untuned network."""
    forms = [one for one in result.contestants if one.name in (TUNED, UNTUNED)]
    return [*forms[:1], *result.rivals(), *forms[1:]]


def contestants_table(result: TuneResult) -> Table:
    """A row for each contestant, and a remark for each rival that could not take part."""
    best = result.best_rival()
    return Table(
        "Contestants",
        _COLUMNS,
        [_row(result, one, one is best) for one in ordered(result)],
        _NOTE,
        remarks=[f"{title} is left out: {reason}." for title, reason in result.left_out.items()],
    )


def _row(result: TuneResult, one: Contestant, best: bool) -> list[str]:
    tuned_s = result.median_s(TUNED)
    ratio = None
    if tuned_s is not None and comparable(one) and one.median_s is not None:
        ratio = one.median_s / tuned_s
    return [
        one.name,
        milliseconds(one.median_s),
        times(ratio),
        MISSING if one.ready_s is None else duration(one.ready_s),
        MISSING if one.peak_mb is None else f"{one.peak_mb:,.0f} MB",
        MISSING if one.max_abs_difference is None else difference(one.max_abs_difference),
        one.version or MISSING,
        _remark(one, best, any(other.dtype not in ("", "float32") for other in result.contestants)),
    ]


def _remark(one: Contestant, best: bool, with_type: bool) -> str:
    said = [one.error] if one.error else []
    said += [f"in {one.dtype}"] if with_type and one.dtype else []
    said += ["disturbed"] if one.disturbed else []
    said += ["best rival"] if best else []
    said += [] if one.own_process else ["not in a process of its own"]
    return "; ".join(said)
