"""The report of a tuning run: its file, its terminal table, its page."""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from foretune.figures import CSS_VARIABLES
from foretune.inference.energy import ReportConfig, ReportConfigError, estimate_energy
from foretune.inference.report import main, print_profile, print_report, write_report
from foretune.inference.report_content import (
    COLUMNS,
    duration,
    facts,
    notes,
    rank_correlation,
    rows,
    significant,
)
from foretune.inference.report_html import render_page
from foretune.inference.report_plots import MAX_TASKS, plots
from foretune.inference.tune_result import (
    EAGER,
    TUNED,
    UNTUNED,
    LatencyStats,
    ResultFormatError,
    RivalCurve,
    TaskResult,
    TuneResult,
    load_result,
    save_result,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console


def make_task(name: str = "fused_conv2d_add_relu", **changes: Any) -> TaskResult:
    """A small task: 10 ms before, 2 ms after, three validated candidates, the last of which failed."""
    task = TaskResult(
        name=name,
        operator="conv2d",
        workload_hash="0123456789abcdef",
        weight=2,
        flops=2e8,
        untuned_latency_s=0.010,
        tuned_latency_s=0.002,
        candidates_scored=512,
        candidates_measured=3,
        candidates_failed=1,
        search_s=4.0,
        measure_s=1.5,
        predicted_scores=[0.9, 0.8, 0.1],
        measured_latencies_s=[0.002, 0.004, math.inf],
    )
    return replace(task, **changes)


def make_stats(name: str, median_s: float) -> LatencyStats:
    return LatencyStats(name, median_s, 0.9 * median_s, [0.9 * median_s, median_s, 1.2 * median_s])


def make_result(**changes: Any) -> TuneResult:
    """Two tasks, 4 ms and 1 ms of the network's time."""
    second = make_task("fused_dense_add", operator="dense", weight=1, tuned_latency_s=0.001, flops=1e6)
    result = TuneResult(
        network="resnet18",
        target='{"kind":"llvm","tag":"","keys":["cpu"],"num-cores":2,"mcpu":"znver4"}',
        hardware="Sample CPU, 2 cores",
        checkpoint="cpu-base",
        settings={"candidates": 512, "top_k": 64, "seed": 0},
        tasks=[second, make_task()],
        latencies=[make_stats(TUNED, 0.006), make_stats(UNTUNED, 0.030), make_stats(EAGER, 0.003)],
        max_abs_difference=2e-6,
        tolerance=1e-3,
        total_s=20.0,
        stage_s={"import": 4.0, "search": 8.0, "measure": 3.0},
        curve=[(0.0, 0.030), (6.0, 0.020), (12.0, 0.005)],
        versions={"apache-tvm": "0.27.0.post1"},
        started_at="2026-11-20T10:00:00+00:00",
    )
    return replace(result, **changes)


def printed(result: TuneResult, width: int = 140) -> str:
    """The terminal report as plain text."""
    console = Console(width=width, file=io.StringIO())
    print_report(result, console)
    return console.file.getvalue()  # type: ignore[attr-defined]


class Page(HTMLParser):
    """Collects tags with their attributes, and the text outside scripts and styles."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self._hidden = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._hidden = tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        self._hidden = False

    def handle_data(self, data: str) -> None:
        if not self._hidden and data.strip():
            self.text.append(data.strip())

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.tags)


NO_DATA = make_result(tasks=[], latencies=[], curve=[], stage_s={}, total_s=0.0, max_abs_difference=None)


# The result


def test_derived_figures_of_a_task() -> None:
    task = make_task()
    assert task.speedup == pytest.approx(5.0)
    assert task.network_s == pytest.approx(0.004)
    assert task.measured_scores == [1.0, 0.5, 0.0]


def test_untuned_task_counts_with_its_untuned_latency() -> None:
    task = make_task(
        tuned_latency_s=None, predicted_scores=[], measured_latencies_s=[], reason="no design space"
    )
    assert task.speedup is None
    assert task.network_s == pytest.approx(0.020)
    assert task.measured_scores == []


def test_all_candidates_failed() -> None:
    task = make_task(tuned_latency_s=None, measured_latencies_s=[math.inf] * 3)
    assert task.measured_scores == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("latency", [math.inf, math.nan, 0.0, -1.0])
def test_impossible_latency_is_refused(latency: float) -> None:
    with pytest.raises(ValueError, match=r"tuned_latency_s=.*fused_conv2d_add_relu.*use None"):
        make_task(tuned_latency_s=latency)


def test_scores_without_latencies_are_refused() -> None:
    with pytest.raises(ValueError, match="3 predicted_scores and 1 measured_latencies_s"):
        make_task(measured_latencies_s=[0.002])


def test_derived_figures_of_a_result() -> None:
    result = make_result()
    assert result.speedup_over(UNTUNED) == pytest.approx(5.0)
    assert result.speedup_over(EAGER) == pytest.approx(0.5)
    assert result.speedup_over("nothing") is None
    assert result.shares() == [pytest.approx(0.2), pytest.approx(0.8)]


@pytest.mark.parametrize(
    ("difference", "match"),
    [(2e-6, True), (1e-3, True), (2e-3, False), (math.inf, False), (math.nan, False), (None, None)],
)
def test_outputs_match(difference: float | None, match: bool | None) -> None:
    assert make_result(max_abs_difference=difference).outputs_match is match


# The file

seconds = st.floats(1e-9, 1e3)


@settings(deadline=None)  # a busy machine is no failure
@given(
    untuned=st.none() | seconds,
    tuned=st.none() | seconds,
    candidates=st.lists(st.tuples(st.floats(allow_nan=False), seconds | st.just(math.inf))),
    difference=st.none() | st.floats(0, allow_nan=False),
    name=st.text(),
)
def test_file_gives_back_the_result(
    tmp_path_factory: pytest.TempPathFactory,
    untuned: float | None,
    tuned: float | None,
    candidates: list[tuple[float, float]],
    difference: float | None,
    name: str,
) -> None:
    task = make_task(
        name.encode("utf-8", "replace").decode(),
        untuned_latency_s=untuned,
        tuned_latency_s=tuned,
        predicted_scores=[score for score, _ in candidates],
        measured_latencies_s=[latency for _, latency in candidates],
    )
    curve = [(0.0, math.inf), (1.5, 0.25)]
    result = make_result(tasks=[task], max_abs_difference=difference, curve=curve)
    path = tmp_path_factory.mktemp("result") / "report.json"
    save_result(result, path)
    assert load_result(path) == result


def test_file_is_strict_json(tmp_path: Path) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    settings = {"seed": np.int64(3), "folder": tmp_path, "rate": np.float32(0.5)}
    save_result(make_result(settings=settings, max_abs_difference=math.nan), tmp_path / "report.json")
    document = json.loads((tmp_path / "report.json").read_text(), parse_constant=refuse)
    assert document["schema_version"] == 1
    assert document["settings"] == {"seed": 3, "folder": str(tmp_path), "rate": 0.5}
    assert document["tasks"][0]["measured_latencies_s"] == [0.002, 0.004, None]
    restored = load_result(tmp_path / "report.json").max_abs_difference
    assert restored is not None and math.isnan(restored)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda document: document.update(schema_version=99), "schema_version=99: this release reads 1"),
        (lambda document: document.pop("network"), r"TuneResult lacks the fields \['network'\]"),
        (lambda document: document.update(extra=1), r"unknown fields \['extra'\]"),
        (lambda document: document["tasks"][0].pop("weight"), r"TaskResult lacks the fields \['weight'\]"),
        (lambda document: document["tasks"].append(3), "value of the wrong kind"),
        (lambda document: document["tasks"][0].update(tuned_latency_s=-1), "tuned_latency_s=-1"),
        (lambda document: document.update(curve=[[1]]), "value of the wrong kind"),
    ],
)
def test_broken_document_is_named(
    tmp_path: Path, edit: Callable[[dict[str, Any]], Any], message: str
) -> None:
    path = tmp_path / "report.json"
    document = make_result().to_json()
    edit(document)
    path.write_text(json.dumps(document))
    with pytest.raises(ResultFormatError, match=message) as caught:
        load_result(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("text", ["", "not json", "[1, 2]", '"text"'])
def test_file_of_another_kind_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "report.json"
    path.write_text(text)
    with pytest.raises(ResultFormatError, match=r"report\.json: (not JSON|the result is a (list|str))"):
        load_result(path)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ResultFormatError, match=r"nowhere\.json: No such file"):
        load_result(tmp_path / "nowhere.json")


# What the report says


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1836.2, "1,836"),
        (82.14, "82.1"),
        (3.5, "3.50"),
        (0.012345, "0.0123"),
        (0, "0"),
        (1e-12, "0.000000000"),
    ],
)
def test_significant(number: float, text: str) -> None:
    assert significant(number) == text


@given(st.floats(1e-6, 1e6))
def test_significant_keeps_three_digits(number: float) -> None:
    assert float(significant(number).replace(",", "")) == pytest.approx(number, rel=0.00501)


@pytest.mark.parametrize(
    ("time_s", "text"),
    [(0.04, "0.0 s"), (59.94, "59.9 s"), (59.96, "1 min 00 s"), (125, "2 min 05 s"), (4020, "1 h 07 min")],
)
def test_duration(time_s: float, text: str) -> None:
    assert duration(time_s) == text


def test_rows_are_sorted_by_share_with_unknown_ones_last() -> None:
    unknown = make_task("unknown", untuned_latency_s=None, tuned_latency_s=None)
    result = make_result(tasks=[unknown, *make_result().tasks])
    assert [(row.task.name, row.share) for row in rows(result)] == [
        ("fused_conv2d_add_relu", pytest.approx(0.8)),
        ("fused_dense_add", pytest.approx(0.2)),
        ("unknown", None),
    ]


def test_last_line_is_the_whole_network() -> None:
    table = rows(make_result())
    footer = {column.title: column.footer(table) for column in COLUMNS[1:]}
    assert footer == {
        "Weight": "3",
        "GFLOP": "0.401",
        "Untuned ms": "30.0",
        "Tuned ms": "5.00",
        "Speed-up": "6.00x",
        "Scored": "1,024",
        "Measured": "6",
        "Seconds": "11.0",
        "Share": "",
    }


def test_last_line_claims_no_sum_of_a_part() -> None:
    table = rows(make_result(tasks=[make_task(), make_task("new", untuned_latency_s=None)]))
    footer = {column.title: column.footer(table) for column in COLUMNS}
    assert (footer["Untuned ms"], footer["Tuned ms"], footer["Speed-up"]) == ("-", "8.00", "-")


def test_facts() -> None:
    told = {fact.label: (fact.value, fact.good) for fact in facts(make_result())}
    assert told == {
        "Against untuned TVM": ("5.00x faster", True),
        "Against PyTorch eager": ("2.00x slower", False),
        "Outputs": ("equal", True),
        "Wall time": ("20.0 s", None),
    }
    assert (
        "2 of 2 tasks tuned; candidates: 1,024 scored, 6 measured, 2 failed"
        in facts(make_result())[-1].detail
    )


def test_an_untuned_network_that_was_not_timed_is_as_slow_as_its_tasks() -> None:
    """10 ms, and twice 10 ms, against 6 ms."""
    result = make_result(latencies=[make_stats(TUNED, 0.006), make_stats(EAGER, 0.003)])
    (fact,) = [fact for fact in facts(result) if fact.label == "Against untuned TVM"]
    assert fact.value == "about 5.00x faster"
    assert fact.detail == "median 6.00 ms; untuned tasks take 30.0 ms a run together"
    unknown = replace(result, tasks=[make_task(), make_task(untuned_latency_s=None)])
    assert not [fact for fact in facts(unknown) if fact.label == "Against untuned TVM"]


def test_facts_where_nothing_was_compared() -> None:
    assert [(fact.label, fact.value) for fact in facts(NO_DATA)] == [
        ("Outputs", "not compared"),
        ("Wall time", "0.0 s"),
    ]


def test_wrong_outputs_are_told() -> None:
    outputs = facts(make_result(max_abs_difference=math.nan))[2]
    assert (outputs.value, outputs.good) == ("differ", False)


def test_energy_is_power_times_time_and_says_so() -> None:
    """65 W for 20 s are 1,300 J, or 0.361 Wh; at 0.48 kg a kWh 0.173 g. A run saves 24 ms."""
    result = make_result(
        power_w=65.0, co2_kg_per_kwh=0.48, latencies=[make_stats(TUNED, 0.006), make_stats(UNTUNED, 0.030)]
    )
    estimate = estimate_energy(result)
    assert estimate is not None
    assert estimate.kwh * 1e3 == pytest.approx(0.3611, rel=1e-3)
    assert estimate.co2_kg * 1e3 == pytest.approx(0.1733, rel=1e-3)
    assert estimate.runs_to_pay_back == pytest.approx(20.0 / 0.024)
    fact = facts(result)[-1]
    assert fact.value == "0.361 Wh, 0.173 g CO2"
    assert fact.detail == (
        "if 65 W are drawn and a kWh emits 0.48 kg of CO2; paid back after 833 runs against untuned TVM"
    )


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


def test_a_rehearsal_is_told_first() -> None:
    assert "made up" in notes(make_result(simulated=True))[0]
    assert not any("made up" in note for note in notes(make_result()))


def test_a_rival_is_drawn_and_told_beside_the_run() -> None:
    """It ended at 20 ms after 60 s; this run was there after 6 s."""
    rival = RivalCurve("stock MetaSchedule", [(5.0, math.inf), (30.0, 0.025), (60.0, 0.020)])
    (curve,) = (plot for plot in plots(make_result(rivals=[rival])) if plot.title == "Tuning curve")
    assert curve.caption.endswith(
        "stock MetaSchedule came to 20.0 ms after 1 min 00 s, where this run was after 6.0 s (10x less time)."
    )
    assert "stock MetaSchedule" in curve.svg
    better = RivalCurve("other", [(30.0, 0.001)])
    (curve,) = (plot for plot in plots(make_result(rivals=[better])) if plot.title == "Tuning curve")
    assert curve.caption.endswith("other came to 1.00 ms after 30.0 s.")


def test_rivals_and_profile_survive_the_file(tmp_path: Path) -> None:
    result = make_result(
        rivals=[RivalCurve("other", [(1.0, math.inf), (2.0, 0.5)])], profile_s={"features": 1.5}, power_w=65.0
    )
    save_result(result, tmp_path / "report.json")
    assert load_result(tmp_path / "report.json") == result


def test_a_file_of_before_these_fields_is_read() -> None:
    document = make_result().to_json()
    for name in ("rivals", "profile_s", "power_w", "co2_kg_per_kwh", "simulated"):
        del document[name]
    assert TuneResult.from_json(document) == make_result()


def test_the_profile_is_sorted_and_adds_up() -> None:
    console = Console(width=100, file=io.StringIO())
    print_profile(make_result(profile_s={"features": 1.0, "building": 3.0}), console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert text.index("search") < text.index("import")  # 8 s before 4 s
    assert text.index("building") < text.index("features")
    assert "75.0%" in text and "40.0%" in text


def test_rank_correlation_is_averaged_over_tasks() -> None:
    reversed_order = make_task("reversed", predicted_scores=[0.1, 0.2, 0.3])
    too_few = make_task("few", predicted_scores=[0.1, 0.2], measured_latencies_s=[0.002, 0.004])
    same = make_task("same", measured_latencies_s=[0.002, 0.002, 0.002])
    # Orders: agreement is 1, reversal is -1; the other two say nothing.
    assert rank_correlation(make_result(tasks=[make_task(), too_few, same])) == pytest.approx(1.0)
    assert rank_correlation(make_result(tasks=[make_task(), reversed_order])) == pytest.approx(0.0)
    assert rank_correlation(make_result(tasks=[too_few, same])) is None


def test_notes_tell_why_a_task_was_not_tuned() -> None:
    skipped = make_task("pool", reason="no design space", tuned_latency_s=None)
    assert notes(make_result(tasks=[skipped, make_task(from_database=True)])) == [
        "pool was not tuned: no design space",
        "1 of 2 schedules came from a database, without a search.",
    ]
    assert notes(make_result()) == []


# The terminal


def test_terminal_report() -> None:
    text = printed(make_result())
    conv, dense = text.index("fused_conv2d_add_relu"), text.index("fused_dense_add")
    assert conv < dense < text.index("one run of the network") < text.index("Against untuned TVM")
    assert "5.00x faster" in text and "80.0%" in text and "2.00x slower" in text


def test_narrow_terminal_drops_columns_instead_of_digits() -> None:
    wide, narrow = printed(make_result()), printed(make_result(), width=80)
    assert "Scored" in wide and "Scored" not in narrow
    assert "Share" in narrow and "Speed-up" in narrow
    table = narrow[: narrow.index("Against")]
    assert "\N{HORIZONTAL ELLIPSIS}" not in table


def test_terminal_takes_names_literally() -> None:
    assert "conv[bold]x" in printed(make_result(tasks=[make_task("conv[bold]x")]))


def test_terminal_report_without_data() -> None:
    assert "not compared" in printed(NO_DATA)


# The page

NASTY = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "$title ${x} $x_1$",
    "a&lt;b #010101 url(#a",
]


@pytest.fixture(scope="module")
def page() -> str:
    return render_page(make_result())


def test_page_has_every_plot_and_all_tasks(page: str) -> None:
    parsed = Page(page)
    assert parsed.count("svg") == parsed.count("figure") == 5
    assert all(attributes.get("aria-label") for tag, attributes in parsed.tags if tag == "svg")
    subtitle = "llvm, num-cores 2, mcpu znver4 | checkpoint cpu-base"
    for text in ("fused_conv2d_add_relu", "5.00x faster", subtitle, "top_k"):
        assert any(text in part for part in parsed.text), text


def test_page_needs_no_other_file(page: str) -> None:
    assert "http:" not in page and "https:" not in page and "@import" not in page
    for tag, attributes in Page(page).tags:
        assert tag not in ("link", "iframe", "object", "base")
        assert "src" not in attributes
        assert (attributes.get("href") or "#").startswith("#")


def test_page_leaves_no_stand_in_colour(page: str) -> None:
    assert not any(colour in page for colour in CSS_VARIABLES)
    for variable in CSS_VARIABLES.values():
        assert page.count(f"{variable}:") == 2, f"{variable} needs a value for light and one for dark"


def test_references_inside_plots_resolve_to_one_element(page: str) -> None:
    identifiers = [attributes["id"] for _, attributes in Page(page).tags if "id" in attributes]
    assert len(identifiers) == len(set(identifiers))
    referenced = set(re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', page))
    assert {first or second for first, second in referenced} <= set(identifiers)


def test_page_escapes_all_text(page: str) -> None:
    tasks = [make_task(name, reason=name) for name in NASTY]
    text = NASTY[0] + NASTY[1]
    nasty = make_result(
        tasks=tasks,
        network=text,
        target=text,
        hardware=text,
        checkpoint=text,
        settings={text: text, "nested": {text: [text]}},
        latencies=[make_stats(TUNED, 0.01), make_stats(text, 0.02)],
        stage_s={text: 1.0},
        versions={text: text},
        started_at=text,
    )
    parsed = Page(render_page(nasty))
    assert parsed.count("script") == Page(page).count("script") == 1
    assert parsed.count("img") == 0
    assert not any(name.startswith("on") for _, attributes in parsed.tags for name in attributes)
    for name in NASTY:
        assert name in parsed.text


def test_table_sorts_by_values_not_by_their_text(page: str) -> None:
    keys = [
        attributes["data-key"]
        for tag, attributes in Page(page).tags
        if tag == "td" and "data-key" in attributes
    ]
    first_row = keys[: len(COLUMNS)]
    assert first_row[:3] == ["fused_conv2d_add_relu", "2", "0.2"]
    assert float(first_row[3] or 0) == pytest.approx(10.0)


def test_plots_are_left_out_where_there_is_no_data() -> None:
    assert plots(NO_DATA) == []
    assert Page(render_page(NO_DATA)).count("svg") == 0


def test_plots_survive_a_run_in_which_everything_failed() -> None:
    failed = make_task(untuned_latency_s=None, tuned_latency_s=None, measured_latencies_s=[math.inf] * 3)
    result = make_result(tasks=[failed], curve=[(0.0, 0.01)])
    assert [plot.title for plot in plots(result)] == [
        "Latency of the network",
        "Where the time went",
        "Predicted against measured",
    ]


def test_task_plot_is_limited_and_says_so() -> None:
    tasks = [make_task(f"task_{index:03d}_{'x' * 60}") for index in range(MAX_TASKS + 5)]
    plot = plots(make_result(tasks=tasks, latencies=[], curve=[], stage_s={}))[0]
    assert plot.caption.startswith(f"{MAX_TASKS} of {MAX_TASKS + 5} tasks")
    assert "task_039_xxx" in plot.svg and "task_040_xxx" not in plot.svg


def test_same_result_gives_the_same_page(page: str) -> None:
    assert render_page(make_result()) == page


# The command


def test_write_report_and_render_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = write_report(make_result(), tmp_path / "run" / "report")
    first = paths.html.read_text()
    paths.html.unlink()
    main([str(paths.json)])
    assert paths.html.read_text() == first
    assert "fused_conv2d_add_relu" in capsys.readouterr().out
    main([str(paths.json), "--output", str(tmp_path / "copy")])
    assert (tmp_path / "copy" / "report.html").read_text() == first


def test_command_reports_a_missing_file_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main([str(tmp_path / "nowhere.json")])
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and error.count("\n") == 1
