"""All HTML pages: what a user names is escaped, and a browser shows them whole at every width."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from foretune.dataset.records.datasheet.overview import read_overview
from foretune.dataset.records.datasheet.write import datasheet_page
from foretune.dataset.records.schema import FailureKind
from foretune.dataset.records.store import RecordStore
from foretune.inference.bolt.advice.content import ActivationAdvice
from foretune.inference.bolt.advice.write import advice_page
from foretune.inference.dynamic.page import dynamic_page
from foretune.inference.report.write import report_page
from foretune.inference.run.result import TUNED
from foretune.inference.run.result_file import load_result
from foretune.page import Fact, Facts, Page, Plot, Plots, Table, Text, columns, to_html, to_markdown
from foretune.training.comparison.report import comparison_page
from support.browser import browser, looked_at
from support.made_up_advice import ADVICE
from support.made_up_comparison import made_up_comparison
from support.made_up_dynamic import RESULT as DYNAMIC
from support.paths import ROOT
from support.records import HARDWARE, record, task_row
from support.results import NO_DATA, make_contestant, make_result, make_task

WIDTHS = (480, 800, 1400)
FAULTS = ("overflow", "wide", "clipped", "covered")
REPORTS = sorted((ROOT / "tests/support/reports").glob("*.json"))
NASTY = '<script>alert(1)</script>"><img src=x onerror=alert(1)>'
LONG = "fused_" + "transpose_reshape_" * 10


def report(name: str, folder: Path) -> Page:
    """A report whose names are `name`."""
    tasks = [make_task(name, reason=name), make_task(name, parent=name, parent_hash="1")]
    contestants = [make_contestant(TUNED, 0.01), make_contestant(name, 0.02, disturbed=True)]
    result = make_result(network=name, hardware=name, tasks=tasks, contestants=contestants)
    return report_page(replace(result, settings={name: name}, stage_s={name: 1.0}, left_out={name: name}))


def datasheet(name: str, folder: Path) -> Page:
    """A datasheet with an operator and a device that are called `name`."""
    store = RecordStore(folder / "set")
    with store.writing():
        store.put_hardware(replace(HARDWARE, name=name))
        store.append_tasks([task_row(), replace(task_row("t2"), operator=name)])
        store.append_records([record(0, (1e-3,)), record(1, (2e-3,)), record(2, (3e-3,), task="t2")])
    return datasheet_page(read_overview(store), None)


def dynamic(name: str, folder: Path) -> Page:
    """A run with dynamic shapes of a network, tasks and a file that are called `name`."""
    tasks = [{**task, "name": name} for task in DYNAMIC.tasks]
    return dynamic_page(
        replace(DYNAMIC, network=name, tasks=tuple(tasks), exported=name, stage_s={name: 1.0})
    )


def advice(name: str, folder: Path) -> Page:
    """An advice on a network, layers and a device that are called `name`."""
    aligned = [replace(one, layer=name) for one in ADVICE.aligned]
    return advice_page(replace(ADVICE, network=name, hardware=name, aligned=aligned, unknown=[name]))


def comparison(name: str, folder: Path) -> Page:
    """A comparison with a model, an operator and a network that are called `name`."""
    return comparison_page(made_up_comparison(name, "trees", operators=(name, "dense")), "trees")


PAGES: dict[str, Callable[[str, Path], Page]] = {
    "report": report,
    "datasheet": datasheet,
    "advice": advice,
    "comparison": comparison,
    "dynamic": dynamic,
}


class Tags(HTMLParser):
    """Collects tags and attributes, and checks the nesting."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("kind", PAGES)
def test_what_a_user_names_is_escaped(kind: str, tmp_path: Path) -> None:
    page = Tags(to_html(PAGES[kind](NASTY, tmp_path)))
    assert page.open == []
    assert page.tags.count("script") == (kind == "report")  # which sorts its table
    assert "img" not in page.tags
    assert not any(name.startswith("on") for name in page.attributes)


def test_every_part_is_escaped() -> None:
    parts = [
        Facts([Fact(NASTY, NASTY, NASTY)], NASTY),
        Plots([Plot(NASTY, NASTY, ())]),
        Table(NASTY, columns(NASTY), [[NASTY]], NASTY, [NASTY], [NASTY], [[NASTY]]),
        Table(NASTY, columns(NASTY), [[NASTY]], folded=True),
        Text(NASTY, [NASTY], [NASTY], NASTY),
    ]
    html = to_html(Page(NASTY, NASTY, parts, NASTY))
    page = Tags(html)
    assert page.open == [] and page.tags.count("script") == 1 and "img" not in page.tags
    assert html.count("&lt;script&gt;") == 26


def test_parts_without_content_are_left_out_everywhere() -> None:
    page = Page("Title", "subtitle", [Facts([], "Facts"), Plots([]), Table("Table", [], []), Text("Text")])
    assert to_markdown(page) == "# Title\n\nsubtitle\n"
    assert not any(f"<h2>{part}" in to_html(page) for part in ("Facts", "Table", "Text"))


def test_a_figure_without_a_neighbour_fills_its_row() -> None:
    narrow, wide = Plot("narrow", "", ()), Plot("wide", "", (), wide=True)
    drawn = Plots([narrow, narrow, wide, narrow, wide, narrow, narrow, narrow])
    filled = [drawn.fills_row(number) for number in range(8)]
    assert filled == [False, False, True, True, True, False, False, True]
    assert to_html(Page("Title", "", [drawn])).count('<figure class="card wide">') == 4


def test_an_optional_column_needs_a_value() -> None:
    names, optional = columns("name", "value")
    table = Table("Table", [names, replace(optional, optional=True)], [["a", "-"], ["b", ""]])
    assert table.shown == [0]
    assert replace(table, rows=[["a", "-"], ["b", "3"]]).shown == [0, 1]


def test_markdown_keeps_a_cell_in_its_column() -> None:
    table = Table("Table", columns("name", "value"), [["a|b", "1"]], "Note.", total=["all", "1"])
    lines = to_markdown(Page("Title", "", [table])).splitlines()
    assert lines[4:8] == ["| name | value |", "| --- | ---: |", "| a\\|b | 1 |", "| all | 1 |"]


def with_gaps(folder: Path) -> dict[str, Page]:
    """Pages of results with values that are unknown, undefined or infinite."""
    nothing = {"untuned_latency_s": None, "tuned_latency_s": None, "reason": "no program ran"}
    failures: dict[str, list[float]] = {
        "predicted_scores": [0.9, 0.8, 0.1],
        "measured_latencies_s": [math.inf] * 3,
    }
    failed = make_task("failed", **nothing, **failures)
    contestants = [
        make_contestant(TUNED, 0.01, ready_s=None, peak_mb=None, max_abs_difference=math.inf),
        replace(make_contestant("dead", 0.02), samples_s=[], median_s=None, min_s=None, error="it died"),
    ]
    report_of = make_result(
        tasks=[failed, make_task()],
        contestants=contestants,
        max_abs_difference=math.nan,
        curve=[(1.0, math.inf), (2.0, math.inf)],
        peak_gflops=1e-3,
        settings={"checkpoint": "-"},
    )
    store = RecordStore(folder / "failed")
    with store.writing():
        store.put_hardware(replace(HARDWARE, peak_gflops=math.nan, bandwidth_gbs=math.nan))
        store.append_tasks([task_row(), task_row("t2")])
        store.append_records([record(0, (), FailureKind.RUN_ERROR), record(1, (1e-3,))])
    empty = RecordStore(folder / "empty")
    with empty.writing():
        empty.append_tasks([task_row()])
    unknown = [ActivationAdvice("relu", 4, 0.0, 0.0, 0, 2)]
    return {
        "report": report_page(report_of),
        "report without data": report_page(NO_DATA),
        "datasheet": datasheet_page(read_overview(store), None),
        "empty datasheet": datasheet_page(read_overview(empty), None),
        "advice": advice_page(replace(ADVICE, network="net", activations=unknown, aligned=[], deeper=[])),
        "comparison": comparison_page(made_up_comparison("a", "b", programs=3), "b"),
    }


def test_no_page_shows_a_value_that_is_not_known(tmp_path: Path) -> None:
    for kind, page in with_gaps(tmp_path).items():
        parts = [part for part in page.parts if not (isinstance(part, Text) and part.verbatim)]
        page = replace(page, parts=parts)  # without the definitions of metrics
        text = re.sub(r"<(script|style).*?</\1>|<[^>]*>", " ", to_html(page), flags=re.DOTALL)
        found = re.findall(r"(?<!\w)(?:nan|NaN|inf|None|null)(?!\w).{0,40}", to_markdown(page) + text)
        assert found == [], kind


@pytest.mark.slow
def test_pages_fit_a_browser(tmp_path: Path) -> None:
    browser()
    pages = {kind: to_html(build(LONG, tmp_path / kind)) for kind, build in PAGES.items()}
    pages |= {path.stem: to_html(report_page(load_result(path))) for path in REPORTS}
    (tmp_path / "browser").mkdir()
    found = looked_at(pages, WIDTHS, tmp_path / "browser")
    assert [one for one in found if any(one[what] for what in FAULTS)] == []
