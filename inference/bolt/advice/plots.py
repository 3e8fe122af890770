"""Plots of an advice."""

from __future__ import annotations

import numpy as np
from matplotlib.ticker import MaxNLocator

from ....figures import AFTER, BEFORE, HALF, INK, PEER, canvas, fragment, name_rows
from ....page import Plot
from ....wording import part_of, verb
from .content import Advice
from .tables import words

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
        axes.barh(places, [100 * one.share for one in shown], color=colours, height=0.62)
        name_rows(axes, [words(one.name) for one in shown])
        axes.axvline(0, color=INK, linewidth=0.8)
        axes.set_xlabel("change of the network's latency, %")
        caption = (
            "The network with one activation in every layer that has one now. Grey bars are activations that "
            "some or all of its layers have."
        )
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
