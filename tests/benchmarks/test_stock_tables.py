"""Ratios to stock by hand: medians of runs, geometric means of tasks, with the softmax and without."""

from __future__ import annotations

import pytest

from benchmarks.common import geometric_spread
from benchmarks.tables.stock import beside, groups, stock_of, warm_spread, with_warm


def _row(foretune_s, cold_s, stock_cold_s, warm=None):
    def run(seconds, cold, warm_s):
        curve = [(0.1 * seconds, 2 * cold), (0.4 * seconds, 1.04 * cold), (seconds, cold)] if cold else []
        return {"seconds": seconds, "cold_s": cold, "warm_s": warm_s, "curve": curve}

    return {
        "trials": 1000,
        "runs": {
            "stock": [run(1000.0, stock_cold_s, warm and warm[1])],
            "foretune": [run(s, cold, warm and warm[0]) for s, cold in zip(foretune_s, cold_s, strict=True)],
        },
    }


def test_foretune_beside_stock_on_one_task():
    one = beside("C2D-0", _row([4.0, 10.0, 9.0], [1.0, 3.0, 2.0], 2.0))
    assert (one.seconds, one.cold_s, one.as_fast, one.runs) == (9.0, 2.0, 2, 3)
    assert one.less_time == pytest.approx(1000 / 9)
    assert one.less_time_near == pytest.approx(400 / 9)  # 1.04 times the last latency
    assert one.cold == 1.0 and one.warm is None


def test_a_run_without_a_program_is_slower_than_all():
    one = beside("C2D-0", _row([1.0, 1.0, 1.0], [None, None, 1.0], 2.0))
    assert one.cold == 0.0 and one.as_fast == 1


def test_stock_is_preferred_to_its_search_as_foretune_measures_it():
    assert stock_of({"foretune": [], "stock_measured_by_foretune": [], "stock": []}) == "stock"
    assert stock_of({"foretune": [], "stock_measured_by_foretune": []}) == "stock_measured_by_foretune"


def test_groups_tell_the_softmax_and_the_networks_apart():
    names = ("resnet18-0", "C2D-0", "SFM-0")
    found = [
        beside(name, _row([1.0], [1.0], cold)) for name, cold in zip(names, (1.0, 4.0, 16.0), strict=True)
    ]
    told = {group: geometric_spread([one.cold for one in each]) for group, each in groups(found).items()}
    assert told["of networks"].middle == 1.0
    assert told["operators"].middle == pytest.approx(8.0)
    assert told["all"].middle == pytest.approx(4.0)
    assert told["all but the softmax"].middle == pytest.approx(2.0)
    assert (told["all"].least, told["all"].most) == (1.0, 16.0)
    assert list(groups(found[1:2])) == ["all"]


def test_warm_caches_are_told_only_where_all_tasks_were_timed_with_them():
    timed = beside("C2D-0", _row([1.0], [1.0], 2.0, warm=(4.0, 2.0)))
    other = beside("GMM-0", _row([1.0], [1.0], 2.0))
    assert warm_spread([timed]).middle == 0.5
    assert warm_spread([timed, other]) is None
    assert with_warm([timed, other]) == [timed]
    assert with_warm([timed]) == with_warm([other]) == []
