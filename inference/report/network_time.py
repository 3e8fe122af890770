"""Time of a run of the network: by its calls, beside its tasks measured alone, and beside the cores' peak."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from ...page import significant
from ..run.result import TUNED, TuneResult, by_tasks_s
from .quantities import milliseconds
from .table import MISSING, rows

APART = 0.1
"""Difference of the network from the sum of its tasks, over the network, above which a note explains it."""

_NAMED = 3
"""Tasks that a note names at most."""

_LEAST_SHARE = 0.005
"""Parts below this share of a run are one line of the table together."""

TIME_HEADS = ("Task or function", "Calls", "ms in the network", "Share", "ms alone")
TIME_NOTE = (
    "One run of the tuned network by its calls, at best. Alone: as measured in the search, times its calls. "
    "vm.builtin: TVM's virtual machine, which allocates memory, checks shapes and makes views."
)


@dataclass(frozen=True)
class _Part:
    """Task or function in one run."""

    name: str
    calls: int
    network_s: float
    alone_s: float | None = None
    """Seconds of the same calls as the task was measured in the search; None for other functions."""

    @property
    def is_builtin(self) -> bool:
        return self.name.startswith("vm.builtin.")


def time_rows(result: TuneResult) -> list[list[str]]:
    """Cells under TIME_HEADS, the parts that take longest first; none without a profile."""
    if result.network_profile is None:
        return []
    run_s, found = result.network_profile.run_s, _parts(result)
    shown = [part for part in found if part.network_s >= _LEAST_SHARE * run_s]
    rest = [part for part in found if part not in shown]
    if rest:
        name = f"{len(rest)} others"
        shown.append(_Part(name, sum(part.calls for part in rest), sum(part.network_s for part in rest)))
    return [
        *(_cells(part.name, f"{part.calls:,}", part.network_s, run_s, part.alone_s) for part in shown),
        _cells("between calls", MISSING, result.network_profile.rest_s, run_s, None),
        _cells("one run", MISSING, run_s, run_s, by_tasks_s(result.tasks, lambda task: task.latency_s)),
    ]


def time_notes(result: TuneResult) -> list[str]:
    """Notes on the network's time outside of its tasks, and on the tasks that lose most to a rival."""
    return [*_difference(result), *_lost(result)]


def _difference(result: TuneResult) -> list[str]:
    """The network's latency beside the sum of its tasks, where they are over APART apart."""
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
        f"{part.name} {_signed(difference)}" for part, difference in tasks[:_NAMED] if abs(difference) > 0
    ]
    builtins_s = sum(part.network_s for part in found if part.is_builtin)
    others_s = sum(part.network_s for part in found if part.alone_s is None and not part.is_builtin)
    note = (
        f"A run of the network takes {milliseconds(run_s)}, {milliseconds(profile.run_s)} at best; its "
        f"tasks, measured alone, add up to {milliseconds(alone_s)} at best. In the network they take "
        f"{milliseconds(sum(part.network_s for part, _ in tasks))}"
        + (f" ({', '.join(most)})" if most else "")
        + (f", functions outside of tasks {milliseconds(others_s)}" if others_s else "")
        + f", TVM's virtual machine {milliseconds(builtins_s)}, and {milliseconds(profile.rest_s)} pass "
        "between calls."
    )
    if result.settings.get("measure", {}).get("cache_flush"):
        note += " Tasks are measured with cold caches, and follow each other in the network with warm ones."
    return [note]


def _lost(result: TuneResult) -> list[str]:
    """The tasks that lose most to the cores' peak, where a rival is faster."""
    best, tuned_s, peak = result.best_rival(), result.median_s(TUNED), result.peak_gflops
    if best is None or best.median_s is None or tuned_s is None or best.median_s >= tuned_s or peak is None:
        return []
    lost = [(row.task, row.lost_s) for row in rows(result) if row.lost_s is not None]
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


def _parts(result: TuneResult) -> list[_Part]:
    """Tasks and functions of a run, those that take longest first."""
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


def _signed(seconds: float) -> str:
    return f"{'+' if seconds >= 0 else '-'}{milliseconds(abs(seconds))}"
