"""Tables, key figures, files and the terminal, of an advice made up by hand."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

from foretune.inference.bolt.advice.tables import best_directions, facts, sections
from foretune.inference.bolt.advice.write import advice_page, print_advice, write_advice
from foretune.page import to_html
from rich.console import Console
from support.made_up_advice import ADVICE


def test_tables_tell_seconds_and_shares() -> None:
    activations, alignment, deepening = sections(ADVICE)
    shown = [activations.rows[1][number] for number in activations.shown]
    assert shown == ["relu6", "-", "-0.100", "-1.00%", "2 of 2"]
    assert activations.rows[0][0] == "no activation"
    assert list(activations.rows[2])[1:3] == ["4", "+0"]
    assert list(activations.rows[3])[2:] == ["-", "-", "-", "0 of 2"]
    assert "softplus" in activations.note
    assert list(alignment.rows[0]) == [
        *("conv2d a", "2", "in 40>48, out 24>32", "2.00", "1.50", "-0.500", "-5.00%"),
    ]
    assert [row[5] for row in deepening.rows] == ["0.50%", "2.50%"]  # together
    assert sections(replace(ADVICE, activations=[], aligned=[], deeper=[])) == []


def test_key_figures() -> None:
    found = {fact.label: (fact.value, fact.detail, fact.good) for fact in facts(ADVICE)}
    assert found["Network"][:2] == ("10.0 ms", "4 of 5 tasks, measured")
    assert found["All relu6"] == (
        *("-0.100 ms", "-1.0% of the network; the cheapest activation that it does not have", True),
    )
    assert found["Aligned widths"][0] == "0.500 ms"  # of layer a; aligning b takes longer
    assert found["Nearly free 1x1"][:2] == ("1 of 2", "together 0.5% of the network")
    assert [(one.task, one.direction) for one in best_directions(ADVICE)] == [("a", "down"), ("b", "up")]
    predicted = replace(ADVICE, measured=False, checkpoint="cpu-latency")
    assert facts(predicted)[0].detail.endswith("predicted by cpu-latency")


def test_no_saving_is_claimed_from_a_disturbed_timing() -> None:
    disturbed = replace(ADVICE, disturbed=True)
    found = {fact.label: fact for fact in facts(disturbed)}
    for label in ("All relu6", "Aligned widths"):
        assert (found[label].value, found[label].good) == ("timing disturbed", None)
        assert found[label].detail.endswith("not claimed")
    assert found["Network"].detail == "4 of 5 tasks, measured while other work ran"
    assert advice_page(disturbed).banner.startswith("Other work of the machine disturbed the timing.")
    assert advice_page(ADVICE).banner == ""
    console = Console(width=120, file=io.StringIO())
    print_advice(disturbed, console)
    assert "No saving is claimed." in console.file.getvalue()  # type: ignore[attr-defined]


def test_a_change_below_the_noise_is_no_clear_difference() -> None:
    activations = [replace(one, noise_s=0.3e-3) for one in ADVICE.activations]
    noisy = replace(ADVICE, activations=activations)
    (fact,) = (fact for fact in facts(noisy) if fact.label == "All relu6")
    assert (fact.value, fact.good) == ("no clear difference", None)
    assert fact.detail == (
        "-0.100 ms, -1.0% of the network, and the turns of the measurement differ by 0.300 ms"
    )
    table = sections(noisy)[0]
    assert [table.rows[1][number] for number in table.shown] == [
        *("relu6", "-", "-0.100", "-1.00%", "0.300", "2 of 2"),
    ]


def test_the_terminal_has_all_tables() -> None:
    console = Console(width=120, file=io.StringIO())
    print_advice(ADVICE, console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    for title in ("Activations", "Alignment", "1x1 convolutions"):
        assert f"{title}: <net> on A & B" in text
    assert "Nearly free 1x1  1 of 2" in text


def test_a_narrow_terminal_shows_all_numbers() -> None:
    console = Console(width=90, file=io.StringIO())
    print_advice(ADVICE, console)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    for section in sections(ADVICE):
        for row in section.rows:
            cells = [row[number] for number in section.shown[1:]]
            assert any(all(cell in line for cell in cells) for line in lines), row


def test_files(tmp_path: Path) -> None:
    data, page = write_advice(ADVICE, tmp_path / "new")
    written = json.loads(data.read_text())
    assert written["activations"][1]["extra_s"] == -0.1e-3
    assert written["aligned"][0]["widths"]["in_channels"] == [40, 48]
    assert page.read_text() == to_html(advice_page(ADVICE))


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "path", "use", "rect"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("path", "use", "rect"):
            assert self.open.pop() == tag


def test_the_page_is_whole_and_loads_nothing() -> None:
    text = to_html(advice_page(ADVICE))
    tags = _Tags()
    tags.feed(text)
    assert tags.open == []
    assert all(link.startswith("#") for link in tags.links)
    assert "&lt;net&gt;" in text and "<net>" not in text
    assert text.count("<svg") == 2
    assert "Tasks without a latency, which the sum does not include: lost." in text
    assert to_html(advice_page(replace(ADVICE, activations=[], deeper=[]))).count("<svg") == 0
