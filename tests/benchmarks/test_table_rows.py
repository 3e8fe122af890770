"""Functions that make the rows of tables, with results that are worked by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.tables import contests, families, models, reuse, speed, templates


def result(**values: Any) -> Any:
    return SimpleNamespace(values=values, variant="", machine="CPU")


def run(**searches: tuple[int, float, float]) -> dict[str, Any]:
    """One run of each search by programs, seconds and latency."""
    found = {name: {"seed": 0, "measured": n, "search_s": s} for name, (n, s, _) in searches.items()}
    return {**found, "side_by_side_s": {name: latency for name, (*_, latency) in searches.items()}}


def test_contests_are_ratios_to_a_base_that_the_run_has() -> None:
    runs = [
        run(base=(100, 10.0, 0.010), other=(50, 5.0, 0.020), third=(0, 1.0, 0.01)),
        run(base=(100, 10.0, 0.010), other=(30, 20.0, 0.005)),
        run(other=(1, 1.0, 1.0)),
    ]
    found = contests.ratios(result(networks={"a": {"runs": runs}, "b": {}}), "base")
    others = found[found["search"] == "other"]
    assert others[["programs", "seconds", "latency"]].to_numpy().tolist() == [
        [0.5, 0.5, 2.0],
        [0.3, 2.0, 0.5],
    ]
    assert others["all_programs"].tolist() == pytest.approx([0.4, 0.4])
    assert found[found["search"] == "third"]["programs"].tolist() == [0.0]
    assert len(contests.ratios(result(networks={"a": {"runs": runs}}), "base", ["third"])) == 1
    assert contests.ratios(result(), "base", part="live").empty


def test_several_pairs_name_their_base() -> None:
    runs = [run(base=(10, 4.0, 0.010), one=(5, 2.0, 0.020), two=(5, 2.0, 0.005))]
    found = contests.several(result(networks={"a": {"runs": runs}}), [["one", "base"], ["two", "one"]])
    assert found[["search", "base", "latency"]].to_numpy().tolist() == [
        ["one", "base", 2.0],
        ["two", "one", 0.25],
    ]


@pytest.mark.parametrize(
    ("foresee", "expected"),
    [
        ([[10.0, 0.03], [40.0, 0.01]], (0.5, 1, 0.5, 1, 0.5)),
        ([[10.0, 0.03], [60.0, 0.0208]], (0.75, 1, 0.75, 0, 1.04)),
    ],
    ids=["reached", "not reached"],
)
def test_curves_are_compared_at_the_last_latency_of_the_rival(foresee: Any, expected: Any) -> None:
    rival = {"curve": [[20.0, 0.04], [80.0, 0.02], [90.0, 0.02]]}
    found = families.over_rival({"curve": foresee}, rival)
    keys = ("near", "near_reached", "end", "end_reached", "last")
    assert tuple(found[key] for key in keys) == pytest.approx(expected)


def test_stock_searches_are_compared_at_equal_programs_and_at_equal_seconds() -> None:
    run = {"curve": [[10.0, 8.0], [30.0, 4.0], [60.0, 3.0]], "programs": [10, 40, 80]}
    rival = {"curve": [[10.0, 9.0], [20.0, 5.0], [40.0, 2.0]], "programs": [10, 30, 80]}
    found = families.over_rival(run, rival)
    # At 40 seconds the run is at 4.0 and the rival at 2.0; at 40 programs they are at 4.0 and 5.0.
    assert (found["same_s"], found["half"], found["last"]) == (2.0, 0.8, 1.5)
    assert "half" not in families.over_rival({"curve": run["curve"]}, rival)


def test_stock_searches_that_left_out_other_tasks_are_not_compared() -> None:
    gradient = {"curve": [[1.0, 1.0]], "left_out": ["take"]}
    alike = {"stock, gradient": gradient, "stock, foresee": {**gradient, "curve": [[2.0, 0.5]]}}
    other = {"stock, gradient": gradient, "stock, foresee": {**gradient, "left_out": []}}
    (row,) = families.stock(result(live={"a": {"stock": [alike, other]}, "b": {"runs": []}}))
    assert (row["scheduler"], row["last"]) == ("stock, foresee", 0.5)


def test_starts_count_programs_until_the_first_round_of_the_other_search() -> None:
    mine, other = [4.0, 3.0, 2.0, 5.0, 1.0], [3.0, 2.0, 2.0, 2.0, 2.0]
    runs = {"default": (other, 20.0), "pretuned": (mine, 10.0), "two pretuned": ([], 1.0)}
    task = {"runs": {name: {"latencies_s": of, "seconds": s} for name, (of, s) in runs.items()}}
    (row,) = contests.starts(result(first_round=4, tasks=[task]))
    assert (row["start"], row["until"], row["within"]) == ("pretuned", 3, 0)
    assert [row[key] for key in ("half", "first", "end", "time")] == [1.5, 1.0, 0.5, 0.5]
    assert contests.programs_until([2.0], 1.0) == float("inf")


def test_pairs_are_ratios_to_the_backend_where_both_ran() -> None:
    def of(programs: int, seconds: float) -> dict[str, Any]:
        return {"programs": programs, "seconds": seconds, "programs_to_best": 3}

    both = {
        "methods": {"eto": of(10, 1.0), "backend": of(40, 4.0)},
        "latency_s": {"eto": 2.0, "backend": 1.0},
    }
    none = {"methods": both["methods"], "latency_s": {"eto": 1.0}}
    rows = list(reuse.pairs(result(types={"C1D": [both, none]})))
    assert [(row["method"], row["speed"], row["programs"], row["asked"]) for row in rows] == [
        *(("eto", 0.5, 0.25, 2), ("backend", 1.0, 1.0, 2)),
    ]


def test_a_rater_has_the_speed_of_the_templates_that_it_puts_first() -> None:
    rows = [{"latency_s": s, "model": m} for s, m in ((1.0, 3.0), (2.0, 1.0), (4.0, 2.0))]
    assert templates.first_of(rows, "model", 1) == 0.5
    assert templates.first_of(rows, "model", 4) == 1.0
    assert templates.first_of(rows, "chance", 1) == pytest.approx((1 + 1 / 2 + 1 / 4) / 3)
    assert templates.first_of(rows, "chance", 3) == pytest.approx(1.0)


def test_contests_of_templates_leave_disturbed_timings_out_of_the_ratios() -> None:
    def row(name: str, share: float, disturbed: bool = False, error: str = "") -> dict[str, Any]:
        return {"contestant": name, "share_of_peak": share, "disturbed": disturbed, "error": error}

    contest = {"threads": 1, "dtype": "float32", "shape": "a", "peak_gflops": {"fma": 100.0}}
    rows = [row("templates", 0.9), row("default_rules", 0.3, True), row("onednn", 0.45)]
    other = {**contest, "shape": "b", "peak_gflops": {"fma": 200.0}, "rows": [row("onednn", 0.5, error="no")]}
    found = templates.contests(result(contests=[{**contest, "rows": rows}, other]))
    assert found["share"].tolist() == ["45 %", "~15 %", "22 %", "-"]
    assert found["ahead"].dropna().tolist() == [2.0]


def test_the_slowest_tenth_of_the_programs_is_apart() -> None:
    def program(bounded: float, unbounded: float, **more: Any) -> dict[str, Any]:
        return {"source": "search", "compile_s": {"bounded": bounded, "unbounded": unbounded}, **more}

    slow = program(2.0, 10.0, latency_s={"bounded": 0.9, "unbounded": 1.0})
    frame = speed.scheduling(result(programs=[*(program(1.0, 1.0) for _ in range(10)), slow]))
    assert frame["time"].iloc[0] == pytest.approx(12 / 20)
    assert frame["slow"].iloc[0] == pytest.approx(3 / 11)  # two of eleven programs
    assert frame["latency"].dropna().tolist() == [0.9]


def test_comparisons_of_other_checkpoints_are_left_out() -> None:
    def table(*checkpoints: str) -> dict[str, Any]:
        part = {
            "tasks": {"test": 3},
            "records": {"test": 9},
            "models": {name: {} for name in (*checkpoints, "xgb")},
        }
        return {"title": "All alike. More.", "checkpoints": list(checkpoints), "by_task": part}

    tables = [table("cpu", "cpu-draft"), table("cpu-latency"), table("cuda")]
    found = list(models.compared(result(tables=tables), ["cpu", "cuda"]))
    assert [row["model"] for row in found] == ["cpu", "cpu-draft", "xgb", "cuda", "xgb"]
    assert found[0]["tested"] == "3 tasks (9 records)"


def test_runs_without_a_measurement_have_their_share_of_the_speed() -> None:
    stages = {
        "default": {"search and measure": 90.0, "link": 7.0, "time the export": 9.0},
        "predicted": {"compile": 6.0},
    }
    one = {name: {"stage_s": of} for name, of in stages.items()}
    runs = [{**one, "side_by_side_s": {"default": 4.0, "predicted": 5.0}}]
    (row,) = speed.unmeasured(result(networks={"a": {"runs": runs}}))
    assert (row["default_s"], row["predicted_s"], row["predicted_share"]) == (97.0, 6.0, 0.8)
