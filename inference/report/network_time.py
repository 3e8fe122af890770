"""Time of a network run by call, compared with separately measured tasks and with the cores' peak."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from ...page import Table, columns
from ...wording import MISSING, counted, milliseconds, signed_ms, significant, verb
from ..run.result import TUNED, TuneResult, by_tasks_s
from .table import credible_peak_gflops, rows, tasks_above_peak

APART = 0.1
"""Relative difference between the network and the sum of its tasks above which a note explains it."""

_NAMED = 3
"""Most tasks that a note names."""

_LEAST_SHARE = 0.005
"""Share of a run below which parts are combined in one line of the table."""


@dataclass(frozen=True)
class _Part:
    """Task or function in one run."""

    name: str
    calls: int
    network_s: float
    alone_s: float | None = None
    """Seconds of the same calls by the task's measurement in the search; None for other functions."""

    @property
    def is_builtin(self) -> bool:
        return self.name.startswith("vm.builtin.")


def time_table(result: TuneResult) -> Table:
    """The parts of a run in descending order of time; no rows if the run has no profile."""
    heads = ("Task or function", "Calls", "ms in the network", "Share", "ms alone")
    return Table(
        "A run of the network",
        columns(*heads),
        _rows(result),
        "The shortest run of the tuned network by its calls. Alone is the time of the same calls as measured "
        "in the search. vm.builtin functions are those of TVM's virtual machine, which allocates memory, "
        "checks shapes and makes views.",
    )


def _rows(result: TuneResult) -> list[list[str]]:
    profile = result.network_profile
    if profile is None:
        return []
    found = _parts(result)
    shown = [part for part in found if part.network_s >= _LEAST_SHARE * profile.run_s]
    rest = [part for part in found if part not in shown]
    if rest:
        name = counted(len(rest), "other")
        shown.append(_Part(name, sum(part.calls for part in rest), sum(part.network_s for part in rest)))
    alone_s = by_tasks_s(result.tasks, lambda task: task.latency_s)
    rows = [
        _cells(part.name, f"{part.calls:,}", part.network_s, profile.run_s, part.alone_s) for part in shown
    ]
    if profile.rest_s > 0:  # each call counts with its shortest time, so noise may leave nothing between them
        rows.append(_cells("between calls", MISSING, profile.rest_s, profile.run_s, None))
    return [*rows, _cells("one run", MISSING, profile.run_s, profile.run_s, alone_s)]


def time_notes(result: TuneResult) -> list[str]:
    """Notes on the network's time outside its tasks, and on the tasks that lose the most time."""
    return [*_difference(result), *_lost(result), *_disturbed_peak(result)]


def _difference(result: TuneResult) -> list[str]:
    """The network's latency and the sum of its tasks, if they differ by more than APART."""
    profile, alone_s = result.network_profile, by_tasks_s(result.tasks, lambda task: task.latency_s)
    if profile is None or alone_s is None:
        return []
    run_s = result.median_s(TUNED) or profile.run_s
    if abs(run_s - alone_s) <= APART * run_s:
        return []
    found = _parts(result)
    tasks = [(part, part.network_s - part.alone_s) for part in found if part.alone_s is not None]
    tasks.sort(key=lambda pair: abs(pair[1]), reverse=True)
    most = [
        f"{part.name} {signed_ms(difference)} ms"
        for part, difference in tasks[:_NAMED]
        if abs(difference) > 0
    ]
    builtins_s = sum(part.network_s for part in found if part.is_builtin)
    others_s = sum(part.network_s for part in found if part.alone_s is None and not part.is_builtin)
    named = f" ({', '.join(most)})" if most else ""
    parts = [f"they take {milliseconds(sum(part.network_s for part, _ in tasks))}{named}"]
    parts += [f"functions outside of tasks {milliseconds(others_s)}"] if others_s else []
    parts += [f"TVM's virtual machine {milliseconds(builtins_s)}"]
    parts += [f"and {milliseconds(profile.rest_s)} pass between calls"] if profile.rest_s > 0 else []
    note = (
        f"A run of the network takes {milliseconds(run_s)}, and {milliseconds(profile.run_s)} at best; its "
        f"tasks, measured alone, add up to {milliseconds(alone_s)} at best. In the network "
        f"{', '.join(parts)}."
    )
    if result.settings.get("measure", {}).get("cache_flush"):
        note += " Tasks are measured with cold caches, and follow each other in the network with warm ones."
    return [note]


def _lost(result: TuneResult) -> list[str]:
    """The tasks that lose the most time compared with the cores' peak, if a rival is faster."""
    best, tuned_s, peak = result.best_rival(), result.median_s(TUNED), credible_peak_gflops(result)
    if best is None or best.median_s is None or tuned_s is None or best.median_s >= tuned_s or peak is None:
        return []
    lost = [(row.task, row.lost_s) for row in rows(result) if row.lost_s is not None and row.lost_s > 0]
    lost.sort(key=lambda pair: pair[1], reverse=True)
    named = [
        f"{task.name} {milliseconds(lost_s)} of {milliseconds(task.network_s)}"
        for task, lost_s in lost[:_NAMED]
        if task.network_s is not None
    ]
    if not named:
        return []
    return [
        f"{best.name} is faster by {milliseconds(tuned_s - best.median_s)}. Of the time over what the cores' "
        f"peak of {significant(peak)} GFLOP/s allows, most is lost in {', '.join(named)}."
    ]


def _disturbed_peak(result: TuneResult) -> list[str]:
    """The reason why no share of the peak is given, if tasks run faster than the measured peak."""
    faster = tasks_above_peak(result)
    if not faster or result.peak_gflops is None:
        return []
    return [
        f"{counted(faster, 'task')} {verb(faster, 'runs', 'run')} faster than the cores' measured peak of "
        f"{significant(result.peak_gflops)} GFLOP/s: other work disturbed its measurement, so no share of it "
        "is given."
    ]


def _parts(result: TuneResult) -> list[_Part]:
    """Tasks and functions of a run, in descending order of time."""
    if result.network_profile is None:
        return []
    alone_s = {task.name: task.network_s for task in result.tasks}
    calls: dict[str, int] = defaultdict(int)
    seconds: dict[str, float] = defaultdict(float)
    for call in result.network_profile.calls:
        calls[call.task or call.name] += call.calls
        seconds[call.task or call.name] += call.seconds
    parts = [_Part(name, calls[name], seconds[name], alone_s.get(name)) for name in seconds]
    return sorted(parts, key=lambda part: -part.network_s)


def _cells(name: str, calls: str, seconds: float, run_s: float, alone_s: float | None) -> list[str]:
    alone = MISSING if alone_s is None else significant(alone_s * 1e3)
    return [name, calls, significant(seconds * 1e3), f"{seconds / run_s:.1%}", alone]
