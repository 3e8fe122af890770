"""Tables, key figures, files and the terminal, of an advice made up by hand."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

from foretune.inference.bolt.advice.content import (
    ActivationAdvice,
    Advice,
    AlignmentAdvice,
    DeepeningAdvice,
    LayerCosts,
)
from foretune.inference.bolt.advice.tables import best_directions, facts, sections
from foretune.inference.bolt.advice.terminal import print_advice
from foretune.inference.bolt.advice.write import render_page, write_advice
from rich.console import Console

WIDTHS = {"in_channels": (40, 48), "out_channels": (24, 32)}
ADVICE = Advice(
    network="<net>",
    target="llvm",
    hardware="A & B",
    measured=True,
    checkpoint="cpu",
    network_s=10e-3,
    tasks=5,
    unknown=["lost"],
    layers=3,
    sources={"template": 2, "short search": 2},
    alignment=16,
    nearly_free=0.01,
    activations=[
        ActivationAdvice("none", 0, -0.5e-3, -0.05, 2, 2),
        ActivationAdvice("relu6", 0, -0.1e-3, -0.01, 2, 2),
        ActivationAdvice("relu", 4, 0.0, 0.0, 2, 2),
        ActivationAdvice("softplus", 0, 0.0, 0.0, 0, 2),
    ],
    layer_costs=[LayerCosts("conv2d", "conv", 4, "relu", 1e-3, {"relu": 0.0})],
    aligned=[
        AlignmentAdvice("conv2d a", "a", 2, "down", WIDTHS, 2e-3, 1.5e-3, 0.05),
        AlignmentAdvice("conv2d b", "b", 1, "up", WIDTHS, 1e-3, 1.25e-3, -0.025),
        AlignmentAdvice("conv2d a", "a", 2, "up", WIDTHS, 2e-3, 3e-3, -0.1),
    ],
    deeper=[
        DeepeningAdvice("conv2d a", "a", 2, 24, 0.05e-3, 0.005, 1200),
        DeepeningAdvice("conv2d b", "b", 1, 64, 0.2e-3, 0.02, 4160),
    ],
)


def test_tables_tell_seconds_and_shares() -> None:
    activations, alignment, deepening = sections(ADVICE)
    assert list(activations.rows[1]) == ["relu6", "-", "-0.100", "-1.00%", "2 of 2"]
    assert activations.rows[0][0] == "no activation"
    assert list(activations.rows[2])[1:3] == ["4", "+0"]
    assert list(activations.rows[3])[2:] == ["-", "-", "0 of 2"]
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
        *("-0.100 ms", "-1.0% of the network; the cheapest of the activations that it does not have", True),
    )
    assert found["Aligned widths"][0] == "0.500 ms"  # of layer a; aligning b takes longer
    assert found["Nearly free 1x1"][:2] == ("1 of 2", "together 0.5% of the network")
    assert [(one.task, one.direction) for one in best_directions(ADVICE)] == [("a", "down"), ("b", "up")]
    predicted = replace(ADVICE, measured=False, checkpoint="cpu-latency")
    assert facts(predicted)[0].detail.endswith("predicted by cpu-latency")


def test_the_terminal_has_all_tables() -> None:
    console = Console(width=120, file=io.StringIO())
    print_advice(ADVICE, console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    for title in ("Activations", "Alignment", "1x1 convolutions"):
        assert f"{title}: <net> on A & B" in text
    assert "Nearly free 1x1: 1 of 2" in text


def test_a_narrow_terminal_shows_all_numbers() -> None:
    console = Console(width=90, file=io.StringIO())
    print_advice(ADVICE, console)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    for section in sections(ADVICE):
        for row in section.rows:
            assert any(all(cell in line for cell in row[1:]) for line in lines), row


def test_files(tmp_path: Path) -> None:
    data, page = write_advice(ADVICE, tmp_path / "new")
    written = json.loads(data.read_text())
    assert written["activations"][1]["extra_s"] == -0.1e-3
    assert written["aligned"][0]["widths"]["in_channels"] == [40, 48]
    assert page.read_text() == render_page(ADVICE)


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
    text = render_page(ADVICE)
    tags = _Tags()
    tags.feed(text)
    assert tags.open == []
    assert all(link.startswith("#") for link in tags.links)
    assert "&lt;net&gt;" in text and "<net>" not in text
    assert text.count("<svg") == 2
    assert "Without a latency, and not in the sum: lost." in text
    assert render_page(replace(ADVICE, activations=[], deeper=[])).count("<svg") == 0
