"""Use of the cores during a run: samples by part and stage."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
from foretune.inference.run import core_timeline
from foretune.inference.run.core_timeline import ENGINES, THIS, CoreSample, CoreTimeline, by_stage, thinned
from foretune.inference.run.profiling import StageClock


def test_work_is_summed_by_stage_and_the_rest_is_idle() -> None:
    samples = [
        CoreSample(2.0, "start", {THIS: 1.5}),
        CoreSample(3.0, "search", {THIS: 0.25, "searching": 0.5}),
        CoreSample(5.0, "search", {"searching": 3.0}),
        CoreSample(6.0, "start", {THIS: 1.0}),
    ]
    start, search = by_stage(samples)
    assert (start.stage, start.wall_s, start.busy_s) == ("start", 3.0, {THIS: 2.5})
    assert (search.stage, search.wall_s, search.busy_s) == ("search", 3.0, {THIS: 0.25, "searching": 3.5})
    assert start.idle_s(2) == 3.5 and search.idle_s(1) == 0.0


def test_thinning_joins_neighbours_of_one_stage_and_keeps_the_sums() -> None:
    stages = "aaaabbc"
    samples = [CoreSample(float(n + 1), stage, {THIS: 1.0}) for n, stage in enumerate(stages)]
    kept = thinned(samples)
    assert [sample.until_s for sample in kept] == [2.0, 4.0, 6.0, 7.0]
    assert by_stage(kept) == by_stage(samples)


def test_a_busy_child_and_a_busy_part_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_timeline, "STEP_S", 0.05)
    monkeypatch.setattr(core_timeline, "CHILDREN_S", 0.1)
    clock, began = StageClock(), time.monotonic()
    timeline = CoreTimeline(clock, lambda: time.monotonic() - began)
    spin = [sys.executable, "-c", "while True: pass"]
    with subprocess.Popen(spin) as part, subprocess.Popen(spin) as engine:
        try:
            with clock.stage("search"):
                timeline.start(lambda: {"searching": [part.pid]})
                while not all(_seconds(timeline, "search", name) > 0.1 for name in ("searching", ENGINES)):
                    assert time.monotonic() - began < 60
                    time.sleep(0.05)
        finally:
            part.kill()
            engine.kill()
    with clock.stage("report"):
        samples = timeline.stop()
    assert samples[-1].stage == "report" and samples[0].busy_s[THIS] > 0
    assert [sample.until_s for sample in samples] == sorted(sample.until_s for sample in samples)


def _seconds(timeline: CoreTimeline, stage: str, part: str) -> float:
    return sum(use.busy_s.get(part, 0.0) for use in by_stage(list(timeline.samples)) if use.stage == stage)
