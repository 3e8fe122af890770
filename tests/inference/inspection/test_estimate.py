"""The estimate of a run's length, against the committed results and earlier runs."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from foretune.dataset.hardware import Hardware, named_hardware
from foretune.inference.database.tuning_notes import RunNote
from foretune.inference.inspection.estimate import REFERENCES, SPREAD, WITH_REUSE, estimate
from foretune.inference.search.config import OneShotConfig
from support.paths import ROOT

FOLDERS = {"AMD Zen 5, 2 cores": "zen5", "AMD Zen 3, 2 cores": "zen3"}
DEFAULT = OneShotConfig()
ALONE = OneShotConfig(reuse="off")


def committed(folder: str) -> Iterator[tuple[str, int, float, Hardware]]:
    """Network, tasks, median seconds of search and measurement, and device of each committed result."""
    for path in sorted((ROOT / "benchmarks" / "results").glob(f"networks_*/{folder}/result.json")):
        result = json.loads(path.read_text())
        hardware = Hardware(**json.loads(Path(path.parent / "manifest.json").read_text())["hardware"])
        for name, of in result["networks"].items():
            runs = [run for run in of["runs"] if "stage_s" in run]
            if runs:
                seconds = statistics.median(run["stage_s"]["search and measure"] for run in runs)
                yield name, runs[0]["tasks"], seconds, hardware


@pytest.mark.parametrize("reference", REFERENCES, ids=lambda one: one.machine)
def test_the_references_are_the_committed_results(reference) -> None:
    a_task_s = [seconds / tasks for _, tasks, seconds, _ in committed(FOLDERS[reference.machine])]
    assert reference.median_s == pytest.approx(statistics.median(a_task_s), rel=0.25)


def test_nine_in_ten_committed_networks_are_within_the_range() -> None:
    found = [one for folder in FOLDERS.values() for one in committed(folder)]
    within = []
    for name, tasks, seconds, hardware in found:
        expected = estimate(tasks, ALONE, hardware)
        assert expected is not None and "committed results on AMD Zen" in expected.basis
        within.append(expected.least_s <= seconds <= expected.most_s or name == "dcgan")
    assert len(found) >= 10
    assert sum(within) >= 0.9 * len(found)


def test_reuse_takes_the_committed_share_of_the_time() -> None:
    ratios = [
        run["fewer"]["search_s"] / run["off"]["search_s"]  # the default where there are templates
        for path in (ROOT / "benchmarks" / "results" / "reuse_networks").glob("*/result.json")
        for network in json.loads(path.read_text())["networks"].values()
        for run in network["runs"]
        if "fewer" in run
    ]
    assert pytest.approx(statistics.geometric_mean(ratios), rel=0.15) == WITH_REUSE
    with_reuse, alone = (
        estimate(10, search, named_hardware("xeon-silver-4210")) for search in (DEFAULT, ALONE)
    )
    assert with_reuse is not None and alone is not None
    assert with_reuse.middle_s == pytest.approx(WITH_REUSE * alone.middle_s)


def test_an_unknown_cpu_gets_the_range_of_all_machines() -> None:
    expected = estimate(10, ALONE, named_hardware("xeon-silver-4210"))
    medians = [one.median_s for one in REFERENCES]
    assert expected is not None
    assert expected.least_s == pytest.approx(10 * SPREAD[0] * min(medians))
    assert expected.middle_s == pytest.approx(10 * statistics.geometric_mean(medians))
    assert expected.most_s == pytest.approx(10 * SPREAD[1] * max(medians))
    assert all(one.machine in expected.basis for one in REFERENCES)


def test_earlier_runs_go_before_the_committed_results() -> None:
    """Two seconds a task and eight: four by the geometric mean."""
    runs = [RunNote(10, 20.0), RunNote(1, 8.0)]
    expected = estimate(5, OneShotConfig(rounds=2), named_hardware("a100"), runs)
    assert expected is not None
    assert expected.middle_s == pytest.approx(5 * 4.0)
    assert (expected.least_s, expected.most_s) == pytest.approx((5 * 2 * SPREAD[0], 5 * 8 * SPREAD[1]))
    assert expected.basis == "2 earlier runs into this database: 4.0 s a task"


@pytest.mark.parametrize(
    ("search", "device"), [(OneShotConfig(rounds=2), "xeon-silver-4210"), (DEFAULT, "a100")]
)
def test_nothing_is_claimed_of_other_searches_and_devices(search: OneShotConfig, device: str) -> None:
    assert estimate(5, search, named_hardware(device)) is None
    same = replace(DEFAULT, seed=7, processes=1)
    assert estimate(5, same, named_hardware("xeon-silver-4210")) is not None
