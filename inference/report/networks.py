"""Networks of a set in its report, shared by the terminal and the page."""

from __future__ import annotations

from ...page import Fact, significant
from ..run.result import NetworkOutcome, TuneResult
from .quantities import milliseconds
from .table import MISSING

NETWORK_HEADS = ("Network", "Tasks", "Tuned", "Best rival", "Over tuned", "Outputs", "Remark")
NETWORK_NOTE = (
    "The networks were tuned together: a task that several have was searched once, and counts with all its "
    "calls. Each network was then compiled, checked and timed by itself; a folder of its name has its report."
)


def network_rows(result: TuneResult) -> list[list[str]]:
    """Cells of each network under NETWORK_HEADS; none for a run of a single network."""
    return [_row(one) for one in result.networks]


def network_facts(result: TuneResult) -> list[Fact]:
    """The line about the set; none for a run of a single network."""
    if not result.networks:
        return []
    failed = [one.name for one in result.networks if one.error]
    tuned = len(result.networks) - len(failed)
    calls = sum(one.tasks for one in result.networks)
    detail = f"{calls} tasks, {sum(task.weight > 0 for task in result.tasks)} of them different"
    if failed:
        detail += f"; failed: {', '.join(failed)}"
    value = f"{tuned} of {len(result.networks)} tuned together"
    return [Fact("Networks", value, detail, False if failed else None)]


def _row(one: NetworkOutcome) -> list[str]:
    ratio = None if one.median_s is None or one.rival_s is None else one.rival_s / one.median_s
    rival = MISSING if one.rival_s is None else f"{one.rival}, {milliseconds(one.rival_s)}"
    outputs = {None: MISSING, True: "equal", False: "differ"}[one.outputs_match]
    return [
        one.name,
        str(one.tasks) if one.tasks else MISSING,
        MISSING if one.median_s is None else milliseconds(one.median_s),
        rival,
        MISSING if ratio is None else f"{significant(ratio)}x",
        outputs,
        one.error,
    ]
