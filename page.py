"""Content of a page as parts, and its rendering as HTML and as Markdown. `terminal` prints the same parts.

A part without content (a table without rows, a list without facts) is left out everywhere.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import ClassVar

from jinja2 import Environment, StrictUndefined, Template

from .wording import MISSING


@dataclass(frozen=True)
class Fact:
    """One line of a summary; `good` chooses its colour, None for neutral."""

    label: str
    value: str
    detail: str
    good: bool | None = None


@dataclass(frozen=True)
class Facts:
    """Cards with facts."""

    kind: ClassVar[str] = "facts"
    facts: Sequence[Fact]
    title: str = ""
    headline: bool = False
    """Whether these are the main figures of the page, which are drawn larger."""

    def __bool__(self) -> bool:
        return bool(self.facts)


@dataclass(frozen=True)
class Plot:
    """A figure: SVG panels that share a title and a caption."""

    title: str
    caption: str
    """Plain text; screen readers read it for the picture."""
    panels: tuple[str, ...]
    """SVG elements of `figures.fragment`; those of a wide page stand in a row."""
    wide: bool = False


@dataclass(frozen=True)
class Plots:
    """Figures, two in a row except for the wide ones."""

    kind: ClassVar[str] = "plots"
    plots: Sequence[Plot]

    def __bool__(self) -> bool:
        return bool(self.plots)

    def fills_row(self, number: int) -> bool:
        """Whether a figure takes a whole row: it is wide, or no other one stands next to it."""
        place = 0
        for plot in self.plots[:number]:
            place = 0 if plot.wide else 1 - place
        has_right = number + 1 < len(self.plots) and not self.plots[number + 1].wide
        return self.plots[number].wide or (place == 0 and not has_right)


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    title: str
    text: bool = False
    """Whether cells are left-aligned and may wrap; numbers are right-aligned."""
    optional: bool = False
    """Whether the column is left out if no row has a value in it."""
    terminal: bool = True
    """Whether a terminal shows the column."""
    drop: int = 0
    """Narrow terminals leave out the columns with the lowest positive figure first; 0 for never."""
    whole: bool = False
    """Whether the cells are identifiers or paths, which users copy and a terminal never cuts."""


@dataclass(frozen=True)
class Table:
    """A table of plain text; its first column has the names of its rows."""

    kind: ClassVar[str] = "table"
    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]
    note: str = ""
    """Explains the table."""
    total: Sequence[str] = ()
    """Cells of a last line that sums up the others."""
    remarks: Sequence[str] = ()
    """Sentences about these rows, below the table."""
    keys: Sequence[Sequence[str | float | None]] = ()
    """Values by which a page can sort the rows; without them it cannot."""
    folded: bool = False
    """Whether a page shows the title only until a click."""
    bold: Collection[tuple[int, int]] = ()
    """Cells that a terminal emphasises, as (row, column)."""
    rules: Collection[int] = ()
    """Rows after which a terminal draws a line."""

    def __bool__(self) -> bool:
        return bool(self.rows)

    @property
    def shown(self) -> list[int]:
        """Numbers of the columns without those that are optional and empty."""
        return [
            number
            for number, column in enumerate(self.columns)
            if not column.optional or any(row[number] not in ("", MISSING) for row in self.rows)
        ]


@dataclass(frozen=True)
class Text:
    """Paragraphs, then a list."""

    kind: ClassVar[str] = "text"
    title: str
    paragraphs: Sequence[str] = ()
    items: Sequence[str] = ()
    verbatim: str = ""
    """Text whose line breaks and columns are kept."""

    def __bool__(self) -> bool:
        return bool(self.paragraphs or self.items or self.verbatim)


@dataclass(frozen=True)
class Page:
    """A page; its parts are shown in order."""

    title: str
    subtitle: str
    parts: Sequence[Facts | Plots | Table | Text]
    banner: str = ""
    """A warning above everything else."""


def columns(*titles: str, text: Sequence[str] = ()) -> list[Column]:
    """Columns with these titles; the first one and those in `text` hold text."""
    return [Column(title, text=number == 0 or title in text) for number, title in enumerate(titles)]


@cache
def _template() -> Template:
    source = resources.files(__package__).joinpath("page.html.j2").read_text(encoding="utf-8")
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, auto_reload=False
    )
    return environment.from_string(source)


def to_html(page: Page) -> str:
    """A self-contained page. Its policy forbids everything from elsewhere, and scripts unless a table sorts.

    All texts are escaped; only the SVG of a plot is taken as it is.
    """
    sorts = any(isinstance(part, Table) and part.keys for part in page.parts)
    return _template().render(page=page, sorts=sorts) + "\n"


def to_markdown(page: Page) -> str:
    """The page without its plots; line breaks are kept, and tables are those of GitHub."""
    blocks = [f"# {page.title}", page.subtitle, page.banner]
    for part in filter(None, page.parts):
        if isinstance(part, Facts):
            rows = [[fact.label, fact.value, fact.detail] for fact in part.facts]
            blocks += [part.title and f"## {part.title}", _rows(["quantity", "value", "details"], rows)]
        elif isinstance(part, Table):
            titles = [part.columns[number].title for number in part.shown]
            rows = [[row[number] for number in part.shown] for row in [*part.rows, part.total] if row]
            blocks += [f"## {part.title}", _rows(titles, rows), part.note, *part.remarks]
        elif isinstance(part, Text):
            blocks += [f"## {part.title}", *part.paragraphs]
            blocks += ["\n".join(f"- {item}" for item in part.items)]
            blocks += [f"```\n{part.verbatim}\n```" if part.verbatim else ""]
    return "\n\n".join(filter(None, blocks)) + "\n"


def _rows(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [titles, ["---", *["---:"] * (len(titles) - 1)], *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
