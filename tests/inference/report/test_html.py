"""A report as a page."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from foretune.figures import CSS_VARIABLES
from foretune.inference.report.write import report_page
from foretune.inference.run.result import TUNED
from foretune.page import to_html
from support.results import NO_DATA, make_contestant, make_result, make_task


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


NASTY = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "$title ${x} $x_1$",
    "a&lt;b #010101 url(#a",
]


@pytest.fixture(scope="module")
def page() -> str:
    return to_html(report_page(make_result()))


def test_page_has_every_plot_and_all_tasks(page: str) -> None:
    parsed = Page(page)
    assert parsed.count("svg") == parsed.count("figure") + 1 == 6
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
        contestants=[make_contestant(TUNED, 0.01), make_contestant(text, 0.02)],
        stage_s={text: 1.0},
        versions={text: text},
        started_at=text,
    )
    parsed = Page(to_html(report_page(nasty)))
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
    first_row = keys
    assert first_row[:3] == ["fused_conv2d_add_relu", "2", "0.2"]
    assert float(first_row[3] or 0) == pytest.approx(10.0)


def test_same_result_gives_the_same_page(page: str) -> None:
    assert to_html(report_page(make_result())) == page


def test_a_page_without_data_has_no_plot() -> None:
    assert Page(to_html(report_page(NO_DATA))).count("svg") == 0
