"""Console of the commands, and parts of a page in it."""

from __future__ import annotations

import logging
import sys
import textwrap
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rich import box
from rich import table as rich_table
from rich.console import Console, ConsoleOptions, RenderableType
from rich.logging import RichHandler
from rich.segment import Segment
from rich.status import Status
from rich.text import Text

from .errors import end_without_reader
from .page import Fact, Table
from .wording import visible

NAME_WIDTH = 36
"""Characters of a row's name before a narrow terminal drops columns."""

_LEAST_NAME = 10
_LEAST_TEXT = 20
_LONGEST_WORD = 40
"""Characters of a word before it is broken, if a terminal is narrow."""
_BETWEEN = 3
"""Characters between two columns."""
_LEAST_DETAIL = 24
_SHORT_VALUE = 24


class CommandConsole(Console):
    """Console for text of any origin, on a terminal or in a file.

    It passes no escape codes of names and messages to the terminal. In a file, the steps of a command are
    lines instead of spinners. It ends the command quietly if the reader of its output goes away.
    """

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(visible(segment.text), segment.style)

    def status(self, status: RenderableType, **settings: Any) -> Status:
        if not self.is_terminal:
            say(self, str(status))
        if self.options.ascii_only:
            settings.setdefault("spinner", "line")
        return super().status(Text(status) if isinstance(status, str) else status, **settings)

    def on_broken_pipe(self) -> None:
        self.quiet = True
        end_without_reader()


class LogHandler(RichHandler):
    """Log of a command: coloured on a terminal, otherwise one unbroken line for each message."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(console=CommandConsole(), **settings)

    def emit(self, record: logging.LogRecord) -> None:
        if self.console.is_terminal or record.exc_info:
            super().emit(record)
            return
        level = "" if record.levelno <= logging.INFO else f"{record.levelname.lower()}: "
        say(self.console, f"{level}{record.getMessage()}")


class LogFile(logging.FileHandler):
    """Log of a command in a file; a message that the disk does not take is only on the terminal."""

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError):  # opening the file raises
            super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)

    def close(self) -> None:
        with suppress(OSError):  # of the rest that is flushed
            super().close()


def say(console: Console, text: str, style: str = "") -> None:
    """Prints one line of plain text, which a file and a copy of the terminal keep in one line."""
    console.print(Text(text, style=style), soft_wrap=True)


def short_path(path: Path) -> str:
    """A path as short as a command accepts it: relative to the current folder if it is inside.

    It has a slash, because a checkpoint's name without one means a shipped checkpoint.
    """
    absolute, here = path.resolve(), Path.cwd()
    short = str(absolute.relative_to(here)) if absolute.is_relative_to(here) else str(absolute)
    return short if "/" in short else f"./{short}"


def print_facts(facts: Sequence[Fact], console: Console) -> None:
    """Prints facts line by line; details stand next to short values, and below long ones."""
    if not facts:
        return
    labels = max(len(fact.label) for fact in facts) + 2
    values = max((len(fact.value) for fact in facts if len(fact.value) <= _SHORT_VALUE), default=0) + 2
    room = max(console.width - labels, _LEAST_DETAIL)
    for fact in facts:
        style = {None: "bold", True: "bold green", False: "bold red"}[fact.good]
        value, *more = _wrapped(fact.value, room)
        line = Text(f"{fact.label:{labels}}").append(value, style=style)
        rest = [Text(" " * labels).append(text, style=style) for text in more]
        if more or len(value) > values - 2 or room - values < _LEAST_DETAIL:
            rest += [
                Text(" " * labels).append(text, style="dim")
                for text in (_wrapped(fact.detail, room) if fact.detail else ())
            ]
        elif fact.detail:
            first, *below = _wrapped(fact.detail, room - values)
            line.append(" " * (values - len(value))).append(first, style="dim")
            rest += [Text(" " * (labels + values)).append(text, style="dim") for text in below]
        for text in (line, *rest):
            console.print(text, soft_wrap=True)


def _wrapped(text: str, width: int) -> list[str]:
    """Lines of a text, without a break inside a word or a number."""
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]


def print_table(table: Table, console: Console, explained: bool = False) -> None:
    """Prints a table that has rows, with its remarks, and with its note if it is to be explained.

    A narrow terminal drops the columns with a figure in `Column.drop`, then wraps texts and cuts the names of
    the rows, and at last prints the columns in several blocks. No number is cut.
    """
    if not table:
        return
    shown = [number for number in table.shown if table.columns[number].terminal]
    blocks = _blocks(table, _fitting(table, shown, console.width), console.width)
    for place, block in enumerate(blocks):
        if len(block) > 1 and _space(block, [_least(table, number) for number in block]) > console.width:
            _print_lines(table, block, console)
        else:
            console.print(_printed(table, block, console.width, titled=place == 0))
    for remark in table.remarks:
        console.print(Text(remark, style="yellow"))
    if explained and table.note:
        console.print(Text(table.note))


def _printed(table: Table, shown: Sequence[int], width: int, titled: bool) -> rich_table.Table:
    """The columns of a block, of which the first has the names."""
    title = Text(table.title) if titled and table.title else None
    printed = rich_table.Table(title=title, box=box.SIMPLE, show_footer=bool(table.total))
    widths = _widths(table, shown, width)
    for number in shown:
        column, is_name = table.columns[number], number == shown[0]
        printed.add_column(
            Text(column.title if column.text else column.title.replace(" ", "\n")),
            footer=Text(table.total[number]) if table.total else "",
            justify="left" if column.text else "right",
            no_wrap=is_name or not column.text or widths[number] >= _width(table, number),
            overflow="ellipsis" if is_name else "fold",
            width=widths[number],
            vertical="bottom" if not is_name else "top",
        )
    for at, row in enumerate(table.rows):
        cells = [Text(row[n], style="bold" if (at, n) in table.bold else "") for n in shown]
        cells[0] = Text(_shortened(row[shown[0]], widths[shown[0]]))
        printed.add_row(*cells, end_section=at in table.rules)
    return printed


def _shortened(name: str, width: int) -> str:
    """The head and the tail of a long name: generated names differ in both."""
    tail = (width - 1) // 2
    return name if len(name) <= width else f"{name[: width - 1 - tail]}\N{HORIZONTAL ELLIPSIS}{name[-tail:]}"


def _print_lines(table: Table, shown: Sequence[int], console: Console) -> None:
    """The rows of a block that is wider than the terminal, a line for each cell."""
    first, *others = shown
    for row in table.rows:
        console.print(Text(row[first]), soft_wrap=True)
        for number in others:
            console.print(Text(f"  {table.columns[number].title}: {row[number]}"), soft_wrap=True)


def _fitting(table: Table, shown: list[int], width: int) -> list[int]:
    """The columns that fit into the width, with names of up to NAME_WIDTH characters and texts that wrap."""
    droppable = [number for number in shown if table.columns[number].drop]
    for dropped in [None, *sorted(droppable, key=lambda number: table.columns[number].drop)]:
        shown = [number for number in shown if number != dropped]
        needed = [_needed(table, number) for number in shown]
        if not table.columns[shown[0]].whole:
            needed[0] = min(needed[0], NAME_WIDTH)
        if _space(shown, needed) <= width:
            break
    return shown


def _blocks(table: Table, shown: Sequence[int], width: int) -> list[list[int]]:
    """The columns in blocks that fit into the width; each starts with the names of the rows."""
    first, *others = shown
    blocks = [[first]]
    for number in others:
        block = [*blocks[-1], number]
        if len(block) > 2 and _space(block, [_least(table, one) for one in block]) > width:
            block = [first, number]
            blocks.append(block)
        blocks[-1] = block
    return blocks


def _space(shown: Sequence[int], widths: Sequence[int]) -> int:
    """Characters of a line with columns of these widths."""
    return sum(widths) + _BETWEEN * len(shown) + 1


def _widths(table: Table, shown: Sequence[int], width: int) -> dict[int, int]:
    """Width of each column; names and texts share what the numbers leave."""
    widths = {number: _least(table, number) for number in shown}
    first, *others = shown
    for wanted, numbers in ((_needed, [*others, first]), (_width, others)):
        for number in numbers:
            left = width - _space(shown, [*widths.values()])
            widths[number] += max(0, min(wanted(table, number) - widths[number], left))
    return widths


def _least(table: Table, number: int) -> int:
    """Characters below which a column would lose a part of a number, an identifier or a word."""
    column, width = table.columns[number], _width(table, number)
    if not column.text or column.whole:
        return width
    if number == table.shown[0]:
        return min(width, _LEAST_NAME)
    words = (word for text in _texts(table, number) for word in text.split())
    return min(max(map(len, words), default=0), _LONGEST_WORD)


def _needed(table: Table, number: int) -> int:
    """Characters that a column needs; text may wrap."""
    width = _width(table, number)
    if not table.columns[number].text or table.columns[number].whole or number == table.shown[0]:
        return width
    return max(min(width, _LEAST_TEXT), _least(table, number))


def _width(table: Table, number: int) -> int:
    return max(map(len, _texts(table, number)), default=0)


def _texts(table: Table, number: int) -> list[str]:
    column = table.columns[number]
    heads = [column.title] if column.text else column.title.split()
    return [*heads, *(row[number] for row in [*table.rows, table.total] if row)]
