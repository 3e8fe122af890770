"""Files of an advice: `advice.json` and the page `advice.html`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from ....page import Facts, Page, Plots, Text, to_html
from ....wording import listed, target_words
from ...database.folder import write_whole
from .content import Advice
from .plots import plots
from .tables import facts, sections


def write_advice(advice: Advice, folder: Path) -> list[Path]:
    """Writes both files into a folder and returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    data, page = folder / "advice.json", folder / "advice.html"
    write_whole(data, json.dumps(asdict(advice), indent=1) + "\n")
    write_whole(page, to_html(advice_page(advice)))
    return [data, page]


def advice_page(advice: Advice) -> Page:
    """The whole page."""
    how = "measured" if advice.measured else f"predicted by {advice.checkpoint}"
    return Page(
        f"Advice on {advice.network} for {advice.hardware}",
        f"{target_words(advice.target)} | {how}",
        [
            Facts(facts(advice)),
            Plots(plots(advice)),
            *sections(advice),
            Text("How to read it", list(method(advice))),
        ],
    )


def method(advice: Advice) -> Iterator[str]:
    """Paragraphs on the origin and the limits of the figures."""
    programs = ", ".join(f"{count} by {source}" for source, count in advice.sources.items())
    yield f"Origin of the programs of the network's tasks: {programs}."
    if advice.measured:
        yield (
            "Activations are exchanged in the fastest programs of each layer, and all programs are measured "
            "in turns. Layers of other shapes get a short search, which begins with templates and with the "
            "layer's own programs; a long search finds faster programs of all of them."
        )
    else:
        yield (
            "Every latency is the shortest that the cost model predicts of some programs drawn at random. A "
            "search finds faster ones, and the model's errors may exceed the differences."
        )
    yield (
        "The network's latency is the sum of its tasks, each times its calls, without the effect of tasks on "
        "each other's caches. Accuracy is not considered: train the network to see whether it keeps its "
        "accuracy with another activation, width or depth."
    )
    if advice.unknown:
        yield f"Tasks without a latency, which the sum does not include: {listed(advice.unknown)}."
