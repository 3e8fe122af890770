"""Reuse tree of a run: the searched tasks, and the parent tasks that supplied start programs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from ...page import Fact, Table, columns
from ...wording import MISSING, counted, milliseconds, part_of, significant
from ..run.result import TaskResult, TuneResult

NO_PAIR = "No two tasks of this run can reuse each other's programs, so each was searched by itself."

EARLIER = "earlier run"

_Node = tuple[str, "TaskResult | None", tuple[bool, ...]]
"""Name of a task, the task, and whether it and each of its ancestors have a later sibling."""


def reuses(result: TuneResult) -> bool:
    """Whether the run was configured to reuse programs, or has tasks that did."""
    search = result.settings.get("search")
    asked = isinstance(search, dict) and search.get("reuse", "off") != "off"
    return asked or any(task.parent for task in result.tasks)


def reuse_facts(result: TuneResult) -> list[Fact]:
    """The line about reuse, if the run was configured for it."""
    if not reuses(result):
        return []
    children = [task for task in result.tasks if task.parent]
    if not children:
        return [Fact("Reuse", "none", NO_PAIR)]
    bridges = len(result.bridges())
    others = [task for task in result.tasks if not task.parent]
    detail = f"{_programs(children)} of them measured, and {_programs(others)} of the other {len(others)}"
    detail += f"; {counted(bridges, 'bridge')} added" if bridges else ""
    value = f"{part_of(len(children), len(result.tasks), 'task')} follow others"
    return [Fact("Reuse", value, detail)]


def reuse_table(result: TuneResult) -> Table:
    """A row for each task, below its parent; no rows if no task reuses another."""
    rows = []
    if any(task.parent for task in result.tasks):
        bridges = {task.workload_hash for task in result.bridges()}
        rows = [_row(*node, bridges) for node in _nodes(result.tasks)]
    return Table(
        "Reuse between tasks",
        columns("Task", "Search", "Programs", "Latency", "GFLOP/s", "Tuning s", text=("Search",)),
        rows,
        "A task stands below its parent: its own search is short, and begins with programs of the parent "
        "that are adapted to its loops, or with templates (search.auto.starts). Tasks at the left were "
        "searched by themselves. Programs counts those that this run measured.",
    )


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
        milliseconds(task.latency_s),
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
    """Tasks and parents of earlier runs, each below its parent; tasks with the largest share come first."""
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
    return counted(sum(task.candidates_measured for task in tasks), "program")
