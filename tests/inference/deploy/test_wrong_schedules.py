"""Search for the schedules that change a network's outputs."""

from __future__ import annotations

from collections.abc import Collection

import pytest
from foretune.inference.deploy.wrong_schedules import without_wrong_schedules

WORKLOADS = list("abcdefg")


@pytest.mark.parametrize("wrong", ["a", "g", "d", "be", "abg"])
def test_wrong_schedules_alone_are_left_out(wrong: str) -> None:
    compiled: list[set[str]] = []

    def scheduled(without: Collection[str]) -> set[str]:
        compiled.append(set(WORKLOADS) - set(without))
        return compiled[-1]

    found = without_wrong_schedules(WORKLOADS, scheduled, lambda kept: not kept & set(wrong))
    assert found is not None and sorted(found[1]) == sorted(wrong)
    assert found[0] == set(WORKLOADS) - set(wrong)
    assert len(compiled) <= 1 + 4 * len(wrong)  # halving seven takes three, and one confirms


def test_a_fault_elsewhere_is_no_schedules() -> None:
    assert without_wrong_schedules(WORKLOADS, lambda without: without, lambda _: False) is None
    many = without_wrong_schedules(WORKLOADS, lambda without: without, lambda without: len(without) > 3)
    assert many is None
