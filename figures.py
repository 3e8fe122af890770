"""Figures of matplotlib as SVG elements that take colours and font from the page around them."""

from __future__ import annotations

import html
import io
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

# Stand-ins that matplotlib can draw with; `fragment` replaces each by the page's CSS variable.
INK, MUTED, GRID = "#010101", "#010102", "#010103"
BEFORE, AFTER, PEER, BAD = "#010104", "#010105", "#010106", "#010107"
CSS_VARIABLES = {
    INK: "--ink",
    MUTED: "--muted",
    GRID: "--grid",
    BEFORE: "--before",
    AFTER: "--after",
    PEER: "--peer",
    BAD: "--bad",
}

_STYLE = {
    "svg.fonttype": "none",  # text stays text: it can be selected, and takes the page's font
    "svg.hashsalt": "foretune",  # the same result gives the same file
    "text.parse_math": False,  # a task's name may hold a dollar sign
    "font.size": 12,
    "text.color": INK,
    "axes.labelcolor": MUTED,
    "axes.edgecolor": GRID,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "x",
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "xtick.color": GRID,
    "ytick.color": GRID,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "ytick.left": False,
    "legend.frameon": False,
    "legend.labelcolor": INK,
    "figure.constrained_layout.use": True,
}


@contextmanager
def canvas(width: float, height: float) -> Iterator[Figure]:
    """A figure of so many inches in the pages' style, which holds until it has been saved."""
    with matplotlib.rc_context(_STYLE):
        yield Figure(figsize=(width, height))


def significant(number: float, digits: int = 3) -> str:
    """Rounded to `digits` significant digits, without an exponent: 1836.2 -> 1,836, 0.01234 -> 0.0123."""
    if number == 0 or not math.isfinite(number):
        return f"{number:.0f}"
    return f"{number:,.{min(max(digits - 1 - math.floor(math.log10(abs(number))), 0), 9)}f}"


def log_axis(axes: Axes, which: str) -> None:
    """Makes an axis with its data drawn logarithmic, with plain numbers (matplotlib's own need math text)."""
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    axis = axes.xaxis if which == "x" else axes.yaxis
    low, high = sorted((axes.get_xlim if which == "x" else axes.get_ylim)())
    if high < 5 * low:  # a power of ten or its double may not be in it
        axis.set_major_locator(MaxNLocator(5))
    else:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 300 * low else (1,)))
    axis.set_major_formatter(FuncFormatter(_tick))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


def _tick(value: float, _position: int | None = None) -> str:
    text = significant(value)  # all digits that a tick may have: they stand close where the range is small
    return text.rstrip("0").rstrip(".") if "." in text else text


def fragment(figure: Figure, prefix: str, label: str) -> str:
    """The figure as an element for an HTML page; `prefix` keeps its ids apart from those of other figures."""
    file = io.StringIO()
    no_metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(file, format="svg", transparent=True, metadata=no_metadata)
    text = file.getvalue()
    view = re.search(r'viewBox="([^"]*)"', text)
    assert view is not None
    body = text[text.index(">", view.end()) + 1 :]
    body = re.sub(r"<style.*?</style>", "", body, flags=re.DOTALL)  # would hold for the whole page
    body = re.sub(r"<[^>]*>", lambda tag: _adapt(tag[0], prefix), body)
    return f'<svg role="img" aria-label="{html.escape(label)}" viewBox="{view[1]}">{body.strip()}'


def _adapt(tag: str, prefix: str) -> str:
    """One tag of the SVG with the page's colours and font, and with ids of its own."""
    for colour, variable in CSS_VARIABLES.items():
        tag = tag.replace(colour, f"var({variable})")
    tag = re.sub(r"font-family: [^;\"]*;? ?", "", tag)
    tag = tag.replace("xlink:href", "href")
    # A function, since a prefix that begins with a digit would be read into a reference to the group.
    return re.sub(r'\bid="|href="#|url\(#', lambda found: f"{found[0]}{prefix}-", tag)
