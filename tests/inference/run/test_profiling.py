"""The clock of stages."""

from __future__ import annotations

from foretune.inference.run.profiling import StageClock


def test_a_stage_inside_stops_the_one_outside(monkeypatch):
    times = iter([0.0, 1.0, 4.0, 10.0])  # outer in, inner in, inner out, outer out
    monkeypatch.setattr("foretune.inference.run.profiling.time.perf_counter", lambda: next(times))
    clock = StageClock()
    with clock.stage("outer"), clock.stage("inner"):
        pass
    assert clock.seconds == {"outer": 7.0, "inner": 3.0}
    assert list(clock.take()) == ["outer", "inner"]
    assert clock.seconds == {}


def test_the_innermost_stage_is_current() -> None:
    clock = StageClock()
    with clock.stage("outer"):
        with clock.stage("inner"):
            assert clock.current == "inner"
        assert clock.current == "outer"
    assert clock.current == ""
