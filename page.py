"""Building blocks of all HTML pages: frame, style, facts, figures, tables, numbers as text."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from string import Template


@dataclass(frozen=True)
class Fact:
    """One line of a summary; `good` chooses its colour, None for neutral."""

    label: str
    value: str
    detail: str
    good: bool | None = None


@dataclass(frozen=True)
class Plot:
    """An SVG element with its title and caption."""

    title: str
    caption: str
    """Plain text; screen readers read it for the picture."""
    svg: str
    wide: bool = False


def significant(number: float, digits: int = 3) -> str:
    """Rounded to `digits` significant digits, without an exponent: 1836.2 -> 1,836, 0.01234 -> 0.0123."""
    if number == 0 or not math.isfinite(number):
        return f"{number:.0f}"
    return f"{number:,.{min(max(digits - 1 - math.floor(math.log10(abs(number))), 0), 9)}f}"


def fact_html(fact: Fact) -> str:
    """A card with the fact; its texts are escaped."""
    tone = {None: "", True: " good", False: " bad"}[fact.good]
    return (
        f'<div class="card"><dt>{escape(fact.label)}</dt><dd class="value{tone}">{escape(fact.value)}</dd>'
        f'<dd class="detail">{escape(fact.detail)}</dd></div>'
    )


def figure_html(plot: Plot) -> str:
    """A card with the plot; its texts are escaped."""
    return (
        f'<figure class="card{" wide" if plot.wide else ""}"><h2>{escape(plot.title)}</h2>'
        f'<figcaption>{escape(plot.caption)}</figcaption><div class="scroll">{plot.svg}</div></figure>'
    )


def table_html(
    columns: Sequence[str], rows: Sequence[Sequence[str]], note: str, title: str | None = None
) -> str:
    """A card with a table; a note stands below the title, or below a table without one. Texts are escaped."""
    heads = "".join(f'<th scope="col">{escape(column)}</th>' for column in columns)
    lines = "\n".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    table = (
        f'<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>\n{lines}\n</tbody></table></div>'
    )
    told = f'<p class="note">{escape(note)}</p>' if note else ""
    content = f"{table}{told}" if title is None else f"<h2>{escape(title)}</h2>{told}{table}"
    return f'<section class="card">{content}</section>'


# `figures.CSS_VARIABLES` refers to these colours by name.
STYLE = """\
:root {
  --paper: #f5f6f8; --card: #ffffff; --ink: #1b2430; --muted: #5b6675; --grid: #dde2e9;
  --before: #8b97a8; --after: #1f6feb; --peer: #c2620a; --good: #1a7f45; --bad: #c62a3b;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #10151c; --card: #19202a; --ink: #e4e9f0; --muted: #9aa7b8; --grid: #313b49;
    --before: #76859a; --after: #5b9dff; --peer: #f0984a; --good: #4fc07f; --bad: #ff7382;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); }
body { font: 16px/1.5 system-ui, "Segoe UI", Roboto, sans-serif; }
main { max-width: 1200px; margin: 0 auto; padding: 32px 20px 48px; }
h1 { margin: 0; font-size: 28px; line-height: 1.2; overflow-wrap: anywhere; }
h2 { margin: 0 0 4px; font-size: 18px; }
header p { margin: 6px 0 0; color: var(--muted); overflow-wrap: anywhere; }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(180px, 1fr)); gap: 16px; }
.facts { margin: 24px 0 16px; padding: 0; }
.card { background: var(--card); border: 1px solid var(--grid); border-radius: 10px; }
.card { padding: 18px 20px; min-width: 0; }
.facts .card { margin: 0; }
.facts dt { color: var(--muted); font-size: 14px; }
.facts dd { margin: 0; }
.facts .value { font-size: 25px; font-weight: 650; line-height: 1.35; }
.facts .detail { color: var(--muted); font-size: 14px; }
.good { color: var(--good); }
.bad { color: var(--bad); }
.plots { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 16px; }
.plots figure { margin: 0; }
.wide { grid-column: 1 / -1; }
figcaption, .note { color: var(--muted); font-size: 14px; margin: 0 0 12px; }
.scroll { overflow-x: auto; }
svg { display: block; width: 100%; min-width: 440px; height: auto; stroke-linejoin: round; }
.wide svg { min-width: 760px; }
.scroll + .note { margin-top: 16px; }
svg text { font-family: inherit; }
section.card, details.card, .card + .plots { margin-top: 16px; }
table { border-collapse: collapse; width: 100%; font-size: 14px; font-variant-numeric: tabular-nums; }
th, td { padding: 7px 10px; text-align: right; border-bottom: 1px solid var(--grid); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
thead th { color: var(--muted); font-weight: 600; vertical-align: bottom; }
tfoot td { font-weight: 650; border-bottom: 0; }
#tasks td:first-child { white-space: normal; overflow-wrap: anywhere; min-width: 200px; }
tbody tr:hover { background: var(--paper); }
th button { font: inherit; color: inherit; background: none; border: 0; padding: 0; cursor: pointer; }
th button:focus-visible { outline: 2px solid var(--after); outline-offset: 2px; }
th[aria-sort=ascending] button::after { content: " \\2191"; }
th[aria-sort=descending] button::after { content: " \\2193"; }
details table td { text-align: left; white-space: normal; overflow-wrap: anywhere; vertical-align: top; }
details table td:first-child { color: var(--muted); width: 34%; }
summary { cursor: pointer; font-weight: 650; }
@media (max-width: 860px) { .plots { grid-template-columns: minmax(0, 1fr); } main { padding: 20px 12px; } }
"""


def target_words(target: str) -> str:
    """Kind and attributes of a JSON target, without tag, keys and host; other texts unchanged."""
    try:
        attributes = json.loads(target)
        kind = attributes.pop("kind")
    except (ValueError, AttributeError, KeyError):
        return target
    told = {name: value for name, value in attributes.items() if name not in ("tag", "keys", "host")}
    return ", ".join([kind, *(f"{name} {value}" for name, value in told.items())])


_PAGE = Template(
    """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'$allowed">
<title>$title</title>
<style>
$style</style>
</head>
<body>
<main>
<header>
<h1>$title</h1>
<p>$subtitle</p>
</header>
$content</main>
$script</body>
</html>
"""
)


def page_html(title: str, subtitle: str, content: str, script: str = "") -> str:
    """A self-contained page; title and subtitle are escaped, the rest is not.

    `content` and `script` end with a line break. The policy of a page without a script forbids scripts.
    """
    return _PAGE.substitute(
        title=escape(title),
        subtitle=escape(subtitle),
        style=STYLE,
        content=content,
        script=f"<script>\n{script}</script>\n" if script else "",
        allowed="; script-src 'unsafe-inline'" if script else "",
    )
