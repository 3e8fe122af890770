"""Bridge operators (ETO section 6.2, Definition 5), additional operators that let others reuse each other."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations
from typing import TypeVar

from ....compiler.operators import SettingsError, settings_class, settings_from_dict, to_task
from ....compiler.operators.settings import OperatorSettings
from ....compiler.task import CATEGORIES, Task

T = TypeVar("T")


def one_hop_bridges(
    operators: Mapping[str, T],
    *,
    kind: Callable[[T], Hashable],
    can_reuse: Callable[[T, T], bool],
    bridge: Callable[[T, T], tuple[str, T] | None],
) -> dict[str, T]:
    """1-hop bridge operators by name, one for each pair of one kind whose operators cannot reuse each other.

    Bridges of bridges are excluded, as in ETO, which finds 1-hop bridges sufficient (section 7.2).

    Args:
        operators: operators by name.
        kind: type and sketches of an operator; equality is the first condition of Definition 2.
        can_reuse: whether the second operator may reuse the first (Definition 2).
        bridge: name and bridge operator of two operators; None if they have no bridge.
    """
    found: dict[str, T] = {}
    for first, second in combinations([operators[name] for name in sorted(operators)], 2):
        if kind(first) != kind(second) or can_reuse(first, second) or can_reuse(second, first):
            continue
        made = bridge(first, second)
        if made is not None and made[0] not in operators:
            found.setdefault(*made)
    return found


def all_bridges(
    operators: Mapping[str, T],
    *,
    kind: Callable[[T], Hashable],
    can_reuse: Callable[[T, T], bool],
    bridge: Callable[[T, T], tuple[str, T] | None],
) -> dict[str, T]:
    """All bridge operators, and bridges of bridges until no new one appears (section 6.2).

    The arguments are the same as in `one_hop_bridges`. The closure is finite, because each loop of a bridge
    is as long as a loop of one of the operators.
    """
    found: dict[str, T] = {}
    while further := one_hop_bridges({**operators, **found}, kind=kind, can_reuse=can_reuse, bridge=bridge):
        found |= further
    return found


def bridge_task(first: Task, second: Task, is_alike: Callable[[Task], bool]) -> Task | None:
    """Task of weight 0 of the bridge operator of two tasks; None if no settings produce one.

    Args:
        first, second: tasks of one operator type.
        is_alike: whether a task has the sketches of the two. The steps after the operator determine the
            sketches, but the settings of a network's task do not describe these steps. The function
            therefore tries all epilogues of the operator.
    """
    for settings in _bridges(first, second):
        task = to_task(settings)
        if is_alike(task):
            return replace(task, name=f"bridge_{task.name}", weight=0)
    return None


def _bridges(first: Task, second: Task) -> Iterator[OperatorSettings]:
    if first.operator != second.operator or first.operator in CATEGORIES:
        return
    for epilogue in settings_class(first.operator).epilogues:
        try:
            one, other = (
                settings_from_dict(task.operator, {**task.settings, "epilogue": epilogue})
                for task in (first, second)
            )
            yield one.bridge_with(other)
        except SettingsError:  # known by its arguments only, or an impossible mixture
            continue
