"""Start candidates of a round: how many, and whether the round searches as well."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from foretune.inference.planners.base import Round
from foretune.inference.search.loop import RoundBudget
from foretune.inference.starts.base import Start
from foretune.inference.starts.start_queue import StartQueue


class Source:
    """Start source with a fixed number of templates."""

    def __init__(self, count: int) -> None:
        self.found = [Start(f"template {number}") for number in range(count)]

    def starts(self, task: Any) -> list[Start]:
        return self.found


def taken(templates: int, **changes: Any) -> tuple[RoundBudget, list[str]]:
    """Budget and start candidates of the first round of a task that reuses others."""
    search = SimpleNamespace(task=SimpleNamespace(workload_hash="task"), rounds=0, is_alternative=False)
    planned = Round(search, RoundBudget(8), is_child=True, **changes)  # type: ignore[arg-type]
    queue = StartQueue([Source(templates)])  # type: ignore[list-item]
    found, starts = queue.take(planned, {}, opens=True)
    return found.budget, starts


def test_a_round_that_searches_takes_templates_for_half_of_its_candidates() -> None:
    assert taken(6) == (RoundBudget(8), [f"template {number}" for number in range(4)])


@pytest.mark.parametrize(("templates", "measured"), [(3, 3), (12, 8)])
def test_templates_alone_leave_out_the_search(templates: int, measured: int) -> None:
    starts = [f"template {number}" for number in range(measured)]
    assert taken(templates, templates_alone=True) == (RoundBudget(measured, search=False), starts)


def test_a_task_without_templates_searches_all_the_same() -> None:
    assert taken(0, templates_alone=True) == (RoundBudget(8), [])


def test_templates_alone_may_be_limited() -> None:
    found = taken(4, templates_alone=True, most_templates=2)
    assert found == (RoundBudget(2, search=False), ["template 0", "template 1"])
    assert taken(0, templates_alone=True, most_templates=2) == (RoundBudget(8), [])
