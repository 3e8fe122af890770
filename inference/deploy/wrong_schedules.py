"""Search for the schedules that change a network's outputs, by compiling it without some of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

MOST = 3
"""Schedules that are left out at most; more point to a fault elsewhere."""

_Compiled = TypeVar("_Compiled")


def without_wrong_schedules(
    workloads: Sequence[str],
    compiled_without: Callable[[Collection[str]], _Compiled],
    agrees: Callable[[_Compiled], bool],
) -> tuple[_Compiled, list[str]] | None:
    """A network whose outputs agree, and the workloads that run without a schedule for it.

    None if the outputs differ even without any schedule, or if more than MOST schedules are wrong.

    Args:
        workloads: hashes of the tasks with schedules.
        compiled_without: compiles the network without the schedules of some workloads.
        agrees: whether the outputs of a compiled network agree.
    """

    def agree(scheduled: Sequence[str]) -> bool:
        return agrees(compiled_without(set(workloads) - set(scheduled)))

    if not agree([]):
        return None
    wrong: list[str] = []
    while len(wrong) < MOST:
        kept = [workload for workload in workloads if workload not in wrong]
        low, high = 0, len(kept)  # the first `low` schedules agree, and the first `high` do not
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if agree(kept[:middle]) else (low, middle)
        wrong.append(kept[low])
        compiled = compiled_without(wrong)
        if agrees(compiled):
            return compiled, wrong
    return None
