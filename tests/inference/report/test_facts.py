"""Summary, energy estimate and notes of a report."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from foretune.inference.report.energy import ReportConfig, ReportConfigError, estimate_energy
from foretune.inference.report.facts import banner, details, facts, headline, notes
from foretune.inference.report.write import report_page
from foretune.inference.run.result import BY_LOAD, BY_STOCK, EAGER, TUNED, UNTUNED, Contestant
from foretune.page import to_html
from support.results import NO_DATA, make_contestant, make_result, make_task


def test_facts() -> None:
    told = {fact.label: (fact.value, fact.good) for fact in facts(make_result())}
    assert told == {
        "Compared with PyTorch eager": ("2.00x slower", False),
        "Time taken": ("20.0 s", None),
        "Outputs": ("equal", True),
        "Compared with untuned TVM": ("5.00x faster", True),
        "Candidates": ("6 measured", None),
    }
    assert "2 of 2 tasks tuned" in facts(make_result())[1].detail


def test_the_headline_is_speed_time_and_outputs() -> None:
    labels = [fact.label for fact in headline(make_result())]
    assert labels == ["Compared with PyTorch eager", "Time taken", "Outputs"]
    assert [fact.label for fact in facts(make_result())[:3]] == labels
    assert len(headline(make_result())) + len(details(make_result())) == len(facts(make_result()))


def test_a_banner_names_disturbed_contestants_and_made_up_latencies() -> None:
    assert banner(make_result()) == ""
    contestants = [make_contestant(TUNED, 0.006), make_contestant(EAGER, 0.002, disturbed=True)]
    told = banner(make_result(contestants=contestants))
    assert "disturbed the timing of PyTorch eager." in told
    assert told in to_html(report_page(make_result(contestants=contestants)))
    assert banner(make_result(simulated=True)) == "Dry run, not measured: every latency is made up."


def test_an_untuned_network_that_was_not_timed_is_as_slow_as_its_tasks() -> None:
    """10 ms, and twice 10 ms, against 6 ms."""
    result = make_result(contestants=[make_contestant(TUNED, 0.006), make_contestant(EAGER, 0.003)])
    (fact,) = [fact for fact in facts(result) if fact.label == "Compared with untuned TVM"]
    assert fact.value == "about 5.00x faster"
    assert fact.detail == "median 6.00 ms; the untuned tasks sum to 30.0 ms"
    unknown = replace(result, tasks=[make_task(), make_task(untuned_latency_s=None)])
    assert not [fact for fact in facts(unknown) if fact.label == "Compared with untuned TVM"]


def comparisons(*others: Contestant, tuned: Contestant | None = None) -> dict[str, tuple[str, str]]:
    """Value and detail of each comparison, in order."""
    contestants = [tuned or make_contestant(TUNED, 0.006), *others]
    found = facts(make_result(contestants=contestants))
    return {
        fact.label.removeprefix("Compared with "): (fact.value, fact.detail)
        for fact in found
        if fact.label.startswith("Compared")
    }


def test_the_best_rival_is_told_first_and_the_untuned_network_last() -> None:
    told = comparisons(
        make_contestant(UNTUNED, 0.030), make_contestant(EAGER, 0.012), make_contestant("OpenVINO", 0.0066)
    )
    assert told == {
        "OpenVINO": ("1.10x faster", "best rival: median 6.00 ms instead of 6.60 ms"),
        EAGER: ("2.00x faster", "median 6.00 ms instead of 12.0 ms"),
        UNTUNED: ("5.00x faster", "median 6.00 ms instead of 30.0 ms"),
    }


def test_no_ratio_is_claimed_from_a_disturbed_timing() -> None:
    told = comparisons(make_contestant(EAGER, 0.002, disturbed=True), make_contestant("OpenVINO", 0.003))
    assert list(told) == [
        "OpenVINO",
        EAGER,
        UNTUNED,
    ]  # eager may be faster or not
    assert told["OpenVINO"][0] == "2.00x slower"
    assert told[EAGER][0] == "timing disturbed, no ratio"
    all_told = comparisons(make_contestant(EAGER, 0.012), tuned=make_contestant(TUNED, 0.006, disturbed=True))
    assert all_told[EAGER][0] == "timing disturbed, no ratio"


def test_a_rival_that_failed_is_not_compared() -> None:
    lost = Contestant("OpenVINO", error="killed by signal 11")
    assert UNTUNED in comparisons(lost) and "OpenVINO" not in comparisons(lost)
    died = make_contestant("OpenVINO", 0.012, error="killed by signal 11")
    assert comparisons(died)["OpenVINO"] == ("no ratio", "OpenVINO: killed by signal 11")


def test_facts_where_nothing_was_compared() -> None:
    assert [(fact.label, fact.value) for fact in facts(NO_DATA)] == [
        ("Time taken", "0.0 s"),
        ("Outputs", "not compared"),
    ]


def test_wrong_outputs_are_told() -> None:
    (outputs,) = [fact for fact in facts(make_result(max_abs_difference=math.nan)) if fact.label == "Outputs"]
    assert (outputs.value, outputs.good) == ("differ", False)
    assert outputs.detail == "difference not finite, tolerance 1.0e-03"


def test_compared_inputs_and_unchecked_outputs_are_told() -> None:
    result = make_result(compared_on=["drawn inputs", "edge cases"], unchecked=["output 1 is 0 everywhere"])
    found = {fact.label: fact for fact in headline(result)}
    assert found["Outputs"].detail.endswith("; on drawn inputs and edge cases")
    assert found["Unchecked outputs"].detail.startswith("output 1 is 0 everywhere; ")
    assert found["Unchecked outputs"].good is False


def test_energy_is_power_times_time_and_says_so() -> None:
    """65 W for 20 s are 1,300 J, or 0.361 Wh; at 0.48 kg a kWh 0.173 g. A run saves 24 ms."""
    result = make_result(
        power_w=65.0,
        co2_kg_per_kwh=0.48,
        contestants=[make_contestant(TUNED, 0.006), make_contestant(UNTUNED, 0.030)],
    )
    estimate = estimate_energy(result)
    assert estimate is not None
    assert estimate.kwh * 1e3 == pytest.approx(0.3611, rel=1e-3)
    assert estimate.co2_kg * 1e3 == pytest.approx(0.1733, rel=1e-3)
    assert estimate.runs_to_pay_back == pytest.approx(20.0 / 0.024)
    fact = facts(result)[-1]
    assert fact.value == "0.361 Wh, 0.173 g CO2"
    assert fact.detail == (
        "assuming 65 W and 0.48 kg of CO2 per kWh; paid back after 833 runs compared with untuned TVM"
    )


def test_the_models_cost_their_data_and_training_once() -> None:
    """65 W for two hours are 0.13 kWh, or 62.4 g at 0.48 kg a kWh."""
    result = make_result(power_w=65.0, co2_kg_per_kwh=0.48, pretraining_s=7200.0)
    fact = facts(result)[-1]
    assert (fact.label, fact.value) == ("Energy of the models", "0.130 kWh, 0.0624 kg CO2")
    assert fact.detail == "2 h 00 min of measuring data and of training, once for all runs"
    assert facts(replace(result, pretraining_s=None))[-1].label == "Energy, estimated"


def test_energy_without_assumptions_or_gain() -> None:
    assert estimate_energy(make_result()) is None
    slower_than_eager = estimate_energy(make_result(power_w=65.0, co2_kg_per_kwh=0.48))
    assert slower_than_eager is not None
    assert slower_than_eager.peer == EAGER  # the faster of both: what one would run without tuning
    assert slower_than_eager.runs_to_pay_back is None


@pytest.mark.parametrize(
    ("field", "value"), [("power_w", 0.0), ("power_w", math.inf), ("co2_kg_per_kwh", -1.0)]
)
def test_assumptions_that_cannot_be_are_named(field: str, value: float) -> None:
    with pytest.raises(ReportConfigError, match=rf"report\.{field}={value}"):
        ReportConfig(**{field: value})


def test_the_exported_network_is_told_with_and_without_load() -> None:
    exported = [make_contestant(BY_LOAD, 0.0073), make_contestant(BY_STOCK, 0.0144)]
    (fact,) = [fact for fact in facts(make_result(exported=exported)) if fact.label == "Exported network"]
    assert fact.value == "7.30 ms"
    assert fact.detail == (
        "by foretune.load; stock TVM with nothing set takes 14.4 ms (median of 3 calls in a new process)"
    )


def test_a_dry_run_is_told_first() -> None:
    first = facts(make_result(simulated=True))[0]
    assert (first.label, first.detail, first.good) == ("Dry run", "every latency is made up", False)
    assert not any("made up" in fact.detail for fact in facts(make_result()))


def test_notes_tell_why_a_task_was_not_tuned() -> None:
    skipped = make_task("pool", reason="no design space", tuned_latency_s=None)
    stopped = make_task("conv", reason="the search failed: out of memory", tuned_latency_s=1e-3)
    assert notes(make_result(tasks=[skipped, stopped, make_task(from_database=True)])) == [
        "pool was not tuned: no design space.",
        "conv was not tuned to the end: the search failed: out of memory.",
        "1 of 3 schedules came from a database, without a search.",
    ]
    assert notes(make_result()) == []
    several = [make_task(name, reason="nothing to tune", tuned_latency_s=None) for name in ("a", "b", "c")]
    assert notes(make_result(tasks=several)) == ["a, b and c were not tuned: nothing to tune."]
