"""Curves beside stock: what a run keeps, and how programs are timed once more."""

from __future__ import annotations

import json
import lzma
import math

import pytest
from foretune.dataset.hardware import Hardware

from benchmarks.common import RESULTS, kept_run, read_json
from benchmarks.tuning_curves import __main__ as tuning_curves
from benchmarks.tuning_curves.beside import beside, stock_of
from benchmarks.tuning_curves.tuners import FORETUNE, METASCHEDULE, TUNERS, Curve


def test_a_curve_keeps_improvements_and_programs_near_the_best():
    curve = Curve()
    for latency_s, module in ((4.0, "a"), (math.inf, "b"), (1.4, "c"), (2.0, "d"), (1.0, "e")):
        curve.tell(latency_s, lambda module=module: module)
    run = curve.run()
    assert [step[1:] for step in run["steps"]] == [(4.0, None), (1.4, "c"), (1.0, "e")]
    assert run["measured"] == 5 and run["seconds"] >= run["steps"][-1][0]


def test_programs_are_timed_cold_and_the_last_ones_warm(monkeypatch):
    asked = {}

    def time_in_turns(modules, target, *, flush):
        asked[flush] = list(modules)
        return [{"a": 3.0, "b": 2.0, "c": 1.5}[module] * (1 if flush else 0.5) for module in modules]

    monkeypatch.setattr(tuning_curves, "time_in_turns", time_in_turns)
    runs = {
        "stock": [
            {
                "seed": 0,
                "seconds": 100.0,
                "measured": 9,
                "steps": [(1.0, 9.0, None), (2.0, 3.1, "a"), (50.0, 2.1, "b")],
            }
        ],
        "foretune": [
            {"seed": 0, "seconds": 5.0, "measured": 4, "steps": [(5.0, 1.6, "c")]},
            {"seed": 1, "seconds": 4.0, "measured": 4, "steps": []},
        ],
    }
    found = tuning_curves.with_latencies(runs, None)
    assert asked == {True: ["a", "b", "c"], False: ["b", "c"]}
    (stock,) = found["stock"]
    assert stock["curve"] == [(1.0, 9.0), (2.0, 3.0), (50.0, 2.0)]  # the first as its tuner measured it
    assert (stock["cold_s"], stock["warm_s"]) == (2.0, 1.0)
    assert [run["cold_s"] for run in found["foretune"]] == [1.5, None]
    one = beside({"trials": 9, "runs": {"stock": [stock], "foretune": found["foretune"][:1]}})
    assert (one.less_time, one.warm) == (20.0, pytest.approx(4 / 3))


def _row(foretune_s, cold_s, stock_cold_s):
    def run(seconds, cold):
        curve = [(0.1 * seconds, 2 * cold), (0.4 * seconds, 1.04 * cold), (seconds, cold)] if cold else []
        return {"seconds": seconds, "cold_s": cold, "warm_s": None, "curve": curve}

    foretune = [run(s, cold) for s, cold in zip(foretune_s, cold_s, strict=True)]
    return {"trials": 1000, "runs": {"stock": [run(1000.0, stock_cold_s)], "foretune": foretune}}


def test_foretune_beside_stock_on_one_task():
    one = beside(_row([4.0, 10.0, 9.0], [1.0, 3.0, 2.0], 2.0))
    assert (one.seconds, one.cold_s) == (9.0, 2.0)
    assert one.less_time == pytest.approx(1000 / 9)
    assert one.less_time_near == pytest.approx(400 / 9)  # 1.04 times the last latency
    assert one.cold == 1.0 and one.warm is None


def test_a_run_without_a_program_is_slower_than_all():
    assert beside(_row([1.0, 1.0, 1.0], [None, None, 1.0], 2.0)).cold == 0.0


def test_stock_is_preferred_to_its_search_as_foretune_measures_it():
    assert stock_of({"foretune": [], "stock_measured_by_foretune": [], "stock": []}) == "stock"
    assert stock_of({"foretune": [], "stock_measured_by_foretune": []}) == "stock_measured_by_foretune"


def test_tuners_are_told_apart():
    assert set(FORETUNE).isdisjoint(METASCHEDULE) and len(TUNERS) == 6
    assert tuning_curves.arguments_of([]).tuners == ["stock", "foretune"]


PROGRAMS = sorted(RESULTS.glob("tuning_curves/*/programs/*.json.xz"))


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: f"{path.parent.parent.name}/{path.name}")
def test_kept_programs_of_stock_are_taken_up(path):
    settings = json.loads(lzma.decompress(path.read_bytes()))["settings"]
    name, _, _, tuner, trials, seed = path.name.removesuffix(".json.xz").split("-")
    wanted = tuning_curves.metaschedule_settings(tuner, int(trials))
    settled = {"target": settings["target"], "machine": settings["machine"], "seed": int(seed)}
    run = kept_run(path, wanted | settled, lambda: pytest.fail(f"{name} would be run anew"))
    assert run["steps"][-1][2].startswith("{") and run["measured"] >= 32
    machine = read_json(path.parent.parent / "manifest.json")["hardware"]
    assert Hardware(**machine).hardware_id == settings["machine"]
