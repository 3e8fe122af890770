"""Output of an advice: `advice.json`, the page `advice.html` with its plots, and text for the terminal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
from matplotlib.ticker import MaxNLocator
from rich.console import Console

from ....figures import AFTER, BEFORE, HALF, INK, PEER, canvas, fragment, name_rows
from ....files import write_whole
from ....page import Facts, Page, Plot, Plots, Text, to_html
from ....terminal import print_facts, print_table, say
from ....wording import listed, part_of, target_words, verb
from .content import Advice
from .tables import banner, facts, sections, words


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
        banner(advice),
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


def print_advice(advice: Advice, console: Console) -> None:
    """Prints the tables, each with its note, and the key figures."""
    for table in sections(advice):
        title = f"{table.title}: {advice.network} on {advice.hardware}"
        print_table(replace(table, title=title), console, explained=True)
    print_facts(facts(advice), console)
    if warning := banner(advice):
        say(console, warning, "yellow")


_MOST_BARS = 16


def plots(advice: Advice) -> list[Plot]:
    """All plots for which the advice has data."""
    drawn = (_activations(advice), _deepening(advice))
    return [plot for plot in drawn if plot is not None]


def _activations(advice: Advice) -> Plot | None:
    if not advice.activations:
        return None
    shown = advice.activations
    with canvas(HALF, 1.4 + 0.34 * len(shown)) as figure:
        axes = figure.subplots()
        places = np.arange(len(shown))
        colours = [BEFORE if one.calls else AFTER for one in shown]
        shares = [100 * one.share for one in shown]
        axes.barh(places, shares, color=colours, height=0.62)
        if any(one.noise_s for one in shown):
            noise = [100 * one.noise_s / advice.network_s for one in shown]
            axes.errorbar(shares, places, xerr=noise, fmt="none", ecolor=INK, elinewidth=1.2)
        name_rows(axes, [words(one.name) for one in shown])
        axes.axvline(0, color=INK, linewidth=0.8)
        axes.set_xlabel("change of the network's latency, %")
        caption = (
            "The network with one activation in every layer that has one now. Grey bars are activations that "
            "some or all of its layers have."
        )
        if any(one.noise_s for one in shown):
            caption += " Where a line crosses 0, the turns of the measurement differ by more."
        return Plot("Activations", caption, (fragment(figure, "activations", caption),))


def _deepening(advice: Advice) -> Plot | None:
    if not advice.deeper:
        return None
    shares = 100 * np.cumsum([one.share for one in advice.deeper])
    count = np.arange(1, len(shares) + 1)
    free = len(advice.free)
    with canvas(HALF, 1.4 + 0.34 * min(max(len(advice.activations), 6), _MOST_BARS)) as figure:
        axes = figure.subplots()
        axes.plot(count, shares, color=AFTER, marker="o", markersize=4)
        if free:
            axes.plot(count[:free], shares[:free], color=PEER, marker="o", markersize=5, linestyle="none")
        axes.set_ylim(0, 1.08 * shares[-1])
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("1x1 convolutions added, the cheapest first")
        axes.set_ylabel("of the network's latency, %")
        axes.grid(axis="y")
        caption = (
            f"Latency that the cheapest 1x1 convolutions add together. {part_of(free, len(shares), 'dot')} "
            f"{verb(free or len(shares), 'is', 'are')} drawn in another colour: a convolution that adds at "
            f"most {advice.nearly_free:.1%} of the network."
        )
        return Plot("1x1 convolutions together", caption, (fragment(figure, "deepening", caption),))
