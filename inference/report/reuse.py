"""Reuse tree of a run: which tasks were searched, and whose programs the others began with."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from ...page import Fact, significant
from ..run.result import TaskResult, TuneResult
from .quantities import milliseconds
from .table import MISSING

REUSE_TITLE = "Reuse between tasks"
REUSE_HEADS = ("Task", "Search", "Programs", "Latency", "GFLOP/s", "Tuning s")
REUSE_NOTE = (
    "A task stands below the one that it follows: its own search is short, and begins with that one's "
    "programs, adapted to its loops, or with templates (search.auto.starts). Tasks at the left were searched "
    "by themselves. Programs are those measured in this run."
)
NO_PAIR = "No two tasks of this run can reuse each other's programs: each was searched by itself."

EARLIER = "earlier run"

_Node = tuple[str, "TaskResult | None", tuple[bool, ...]]
"""Name of a task, the task itself, and whether it and each of those above it have a sibling below."""


def reuses(result: TuneResult) -> bool:
    """Whether the run was asked to reuse programs, or has tasks that did."""
    search = result.settings.get("search")
    asked = isinstance(search, dict) and search.get("reuse", "off") != "off"
    return asked or any(task.parent for task in result.tasks)


def reuse_facts(result: TuneResult) -> list[Fact]:
    """The line about reuse; none for a run without."""
    if not reuses(result):
        return []
    children = [task for task in result.tasks if task.parent]
    if not children:
        return [Fact("Reuse", "none", NO_PAIR)]
    bridges = len(result.bridges())
    others = [task for task in result.tasks if not task.parent]
    detail = (
        f"{_programs(children)} programs measured of them, {_programs(others)} of the other {len(others)}"
    )
    detail += f"; {bridges} bridge{'s' * (bridges > 1)} added" if bridges else ""
    return [Fact("Reuse", f"{len(children)} of {len(result.tasks)} tasks follow others", detail)]


def reuse_rows(result: TuneResult) -> list[list[str]]:
    """Cells of each task under REUSE_HEADS, each below its parent; none where no task reuses another."""
    if not any(task.parent for task in result.tasks):
        return []
    bridges = {task.workload_hash for task in result.bridges()}
    return [_row(*node, bridges) for node in _nodes(result.tasks)]


def _row(
    name: str, task: TaskResult | None, siblings: tuple[bool, ...], bridges: Collection[str]
) -> list[str]:
    branch = "".join("│\u00a0\u00a0" if more else "\u00a0\u00a0\u00a0" for more in siblings[1:-1])
    if len(siblings) > 1:
        branch += "├─ " if siblings[-1] else "└─ "
    if task is None:
        return [branch + name, EARLIER, "", "", "", ""]
    speed = None if task.latency_s is None else task.flops / task.latency_s / 1e9
    return [
        branch + name,
        _search(task, task.workload_hash in bridges),
        f"{task.candidates_measured:,}",
        MISSING if task.latency_s is None else milliseconds(task.latency_s),
        MISSING if speed is None else significant(speed),
        f"{task.search_s + task.measure_s:.1f}",
    ]


def _search(task: TaskResult, is_bridge: bool) -> str:
    how = "bridge" if is_bridge else ""
    what = "reuses" if task.parent else "searched"
    if task.template:
        return "template"
    if not task.candidates_measured:
        what = "in database" if task.from_database else "not searched"
    return ", ".join(part for part in (how, what) if part)


def _nodes(tasks: Sequence[TaskResult]) -> Iterator[_Node]:
    """Tasks and parents of earlier runs, each below its parent; those with the largest share first."""
    by_hash = {task.workload_hash: task for task in tasks}
    children: dict[str, list[str]] = {}
    names: dict[str, str] = {}
    for task in sorted(tasks, key=lambda task: -(task.network_s or 0.0)):
        names[task.workload_hash] = task.name
        above = task.parent_hash if task.parent else ""
        if above and above not in by_hash and above not in names:
            names[above] = task.parent
            children.setdefault("", []).append(above)
        children.setdefault(above, []).append(task.workload_hash)
    left = dict.fromkeys(names)

    def below(parent: str, siblings: tuple[bool, ...]) -> Iterator[_Node]:
        own = [name for name in children.get(parent, ()) if name in left]
        for name in own:
            if name not in left:
                continue
            del left[name]
            path = (*siblings, name != own[-1])
            yield names[name], by_hash.get(name), path
            yield from below(name, path)

    yield from below("", ())
    for name in list(left):  # a file may hold tasks that are parents of each other
        if name in left:
            del left[name]
            yield names[name], by_hash.get(name), (False,)


def _programs(tasks: Sequence[TaskResult]) -> str:
    return f"{sum(task.candidates_measured for task in tasks):,}"
