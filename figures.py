"""Matplotlib figures as SVG elements with the colours and the font of the surrounding page."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from .wording import significant

HALF, PANEL = 5.6, 3.8
"""Widths in inches of one of two figures in a row, and of one of more; wide ones are too small on a phone."""

_MOST_GROWTH = 1.6
"""Width of a figure at most, over its own width, in which text is 12 pixels high."""

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
        axis.set_major_locator(LogLocator(subs=_log_steps(high / low)))
    axis.set_major_formatter(FuncFormatter(_tick))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


def _log_steps(ratio: float) -> tuple[int, ...]:
    """Ticks of each power of ten on an axis whose ends have this ratio, so that their numbers fit."""
    if ratio < 50:
        return 1, 2, 5
    return (1, 3) if ratio < 300 else (1,)


def _tick(value: float, _position: int | None = None) -> str:
    text = significant(value)  # ticks of a small range differ in the last digits
    return text.rstrip("0").rstrip(".") if "." in text else text


def shortened(name: str, longest: int = 20) -> str:
    """The head and the tail of a long name: generated names differ in both."""
    if len(name) <= longest:
        return name
    tail = (longest - 3) // 2
    return f"{name[: longest - 3 - tail]}...{name[-tail:]}"


def name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Names the rows 0, 1, ... of an axis, which start at the top; a name takes half of the width at most."""
    axes.set_yticks(range(len(names)), [shortened(name, _characters(axes) // 2) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", labelcolor=INK)


def label_share(axes: Axes, names: Sequence[str], longest: int) -> float:
    """Share of a figure's bars that labels of `longest` characters at their ends need, beside the names."""
    name = min(max(map(len, names)), _characters(axes) // 2)
    return min((longest + 2) / (_characters(axes) - name - 3), 0.8)


def _characters(axes: Axes) -> int:
    """Characters in the width of a figure with one axes."""
    figure = axes.get_figure()
    assert isinstance(figure, Figure)
    return int(72 * figure.get_figwidth() / 7)


def bars(
    axes: Axes,
    names: Sequence[str],
    values: Sequence[float],
    labels: Sequence[str],
    colours: str | Sequence[str] = AFTER,
) -> None:
    """Horizontal bars from the top, each with its label at the end."""
    axes.barh(range(len(values)), values, height=0.55, color=colours)
    for row, (value, label) in enumerate(zip(values, labels, strict=True)):
        axes.annotate(label, (value, row), (5, 0), textcoords="offset points", va="center", color=INK)
    axes.set_xlim(0, max(*values, 1e-9) / (1 - label_share(axes, names, max(map(len, labels)))))
    axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(_tick))
    name_rows(axes, names)


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
    most = _MOST_GROWTH * 72 * figure.get_figwidth()
    return (
        f'<svg role="img" aria-label="{html.escape(label)}" viewBox="{view[1]}" '
        f'style="max-width: min(100%, {most:.0f}px)">{body.strip()}'
    )


def _adapt(tag: str, prefix: str) -> str:
    """One tag of the SVG with the page's colours and font, and with prefixed ids."""
    for colour, variable in CSS_VARIABLES.items():
        tag = tag.replace(colour, f"var({variable})")
    tag = re.sub(r"font-family: [^;\"]*;? ?", "", tag)
    tag = tag.replace("xlink:href", "href")
    # A function, because a digit at the start of the prefix would become part of a group reference.
    return re.sub(r'\bid="|href="#|url\(#', lambda found: f"{found[0]}{prefix}-", tag)
