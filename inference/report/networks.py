"""Networks of a set in the set's report."""

from __future__ import annotations

from ...page import Fact, Table, columns
from ...wording import MISSING, counted, milliseconds, part_of, times
from ..run.result import NetworkOutcome, TuneResult


def networks_table(result: TuneResult) -> Table:
    """A row for each network of a set."""
    heads = ("Network", "Tasks", "Tuned", "Best rival", "Over tuned", "Outputs", "Remark")
    return Table(
        "Networks",
        columns(*heads, text=("Best rival", "Remark")),
        [_row(one) for one in result.networks],
        "The networks were tuned together: a task that several networks have was searched once, and counts "
        "with all its calls. Each network was then compiled, checked and timed by itself; the folder with "
        "its name has its report.",
    )


def network_facts(result: TuneResult) -> list[Fact]:
    """The line about a set of networks."""
    if not result.networks:
        return []
    failed = [one.name for one in result.networks if one.error]
    tuned = len(result.networks) - len(failed)
    tasks = sum(one.tasks for one in result.networks)
    detail = f"{counted(tasks, 'task')}, {sum(task.weight > 0 for task in result.tasks)} of them different"
    if failed:
        detail += f"; failed: {', '.join(failed)}"
    value = f"{part_of(tuned, len(result.networks), 'network')} tuned together"
    return [Fact("Networks", value, detail, False if failed else None)]


def _row(one: NetworkOutcome) -> list[str]:
    ratio = None if one.median_s is None or one.rival_s is None else one.rival_s / one.median_s
    return [
        one.name,
        str(one.tasks) if one.tasks else MISSING,
        milliseconds(one.median_s),
        MISSING if one.rival_s is None else f"{one.rival}, {milliseconds(one.rival_s)}",
        times(ratio),
        {None: MISSING, True: "equal", False: "differ"}[one.outputs_match],
        one.error,
    ]
