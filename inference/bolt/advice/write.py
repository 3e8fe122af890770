"""Files of an advice: advice.json, and advice.html with the same tables and plots."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from html import escape
from pathlib import Path

from ....page import fact_html, figure_html, page_html, table_html, target_words
from ...database.folder import write_whole
from .content import Advice
from .plots import plots
from .tables import facts, sections


def write_advice(advice: Advice, folder: Path) -> list[Path]:
    """Writes both files into a folder and returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    data, page = folder / "advice.json", folder / "advice.html"
    write_whole(data, json.dumps(asdict(advice), indent=1) + "\n")
    write_whole(page, render_page(advice))
    return [data, page]


def render_page(advice: Advice) -> str:
    """The whole page; every text of the advice is escaped."""
    parts = ['<dl class="facts">', *map(fact_html, facts(advice)), "</dl>"]
    if drawn := plots(advice):
        parts += ['<div class="plots">', *map(figure_html, drawn), "</div>"]
    parts += [table_html(s.columns, s.rows, s.note, s.title) for s in sections(advice)]
    parts += ['<section class="card">', "<h2>How to read it</h2>"]
    parts += [f"<p>{escape(text)}</p>" for text in method(advice)]
    parts += ["</section>", ""]
    how = "measured" if advice.measured else f"predicted by {advice.checkpoint}"
    return page_html(
        f"Advice on {advice.network} for {advice.hardware}",
        f"{target_words(advice.target)} | {how}",
        "\n".join(parts),
    )


def method(advice: Advice) -> Iterator[str]:
    """Paragraphs on where the figures come from, and what they leave out."""
    programs = ", ".join(f"{count} by {source}" for source, count in advice.sources.items())
    yield f"Programs of the network's tasks: {programs}."
    if advice.measured:
        yield (
            "Activations are exchanged in the fastest programs of each layer, all of them measured in turns. "
            "Layers of other shapes are searched for a short time, beginning with templates and with the "
            "layer's own programs; a long search finds faster programs of all of them."
        )
    else:
        yield (
            "Every latency is the shortest that the cost model predicts of some programs drawn at random. A "
            "search finds faster ones, and the model's errors may exceed the differences."
        )
    yield (
        "The network's latency is the sum of its tasks, each times its calls. What tasks do to each other's "
        "caches is not in it. Accuracy is not considered: whether another activation, width or depth serves "
        "the network, training tells."
    )
    if advice.unknown:
        yield f"Without a latency, and not in the sum: {', '.join(advice.unknown)}."
