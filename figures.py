"""Matplotlib figures as SVG elements with the colours and the font of the surrounding page."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from .page import significant

# Placeholder colours that matplotlib accepts; `fragment` replaces each by the page's CSS variable.
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
    "text.parse_math": False,  # a task's name may contain a dollar sign
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
    """A figure of `width` x `height` inches in the pages' style; save it inside the context."""
    with matplotlib.rc_context(_STYLE):
        yield Figure(figsize=(width, height))


def log_axis(axes: Axes, which: str) -> None:
    """Makes an axis logarithmic, with plain numbers as ticks (matplotlib's own ticks need math text)."""
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    axis = axes.xaxis if which == "x" else axes.yaxis
    low, high = sorted((axes.get_xlim if which == "x" else axes.get_ylim)())
    if high < 5 * low:  # it may contain fewer than two of 1, 2, 5 times a power of ten
        axis.set_major_locator(MaxNLocator(5))
    else:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 300 * low else (1,)))
    axis.set_major_formatter(FuncFormatter(_tick))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


def _tick(value: float, _position: int | None = None) -> str:
    text = significant(value)  # ticks of a small range differ in the last digits
    return text.rstrip("0").rstrip(".") if "." in text else text


def fragment(figure: Figure, prefix: str, label: str) -> str:
    """The figure as an SVG element for an HTML page; `prefix` makes its ids unique on the page."""
    file = io.StringIO()
    no_metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(file, format="svg", transparent=True, metadata=no_metadata)
    text = file.getvalue()
    view = re.search(r'viewBox="([^"]*)"', text)
    assert view is not None
    body = text[text.index(">", view.end()) + 1 :]
    body = re.sub(r"<style.*?</style>", "", body, flags=re.DOTALL)  # would apply to the whole page
    body = re.sub(r"<[^>]*>", lambda tag: _adapt(tag[0], prefix), body)
    return f'<svg role="img" aria-label="{html.escape(label)}" viewBox="{view[1]}">{body.strip()}'


def _adapt(tag: str, prefix: str) -> str:
    """One tag of the SVG with the page's colours and font, and with prefixed ids."""
    for colour, variable in CSS_VARIABLES.items():
        tag = tag.replace(colour, f"var({variable})")
    tag = re.sub(r"font-family: [^;\"]*;? ?", "", tag)
    tag = tag.replace("xlink:href", "href")
    # A function, because a digit at the start of the prefix would become part of a group reference.
    return re.sub(r'\bid="|href="#|url\(#', lambda found: f"{found[0]}{prefix}-", tag)
