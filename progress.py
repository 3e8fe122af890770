"""Progress of long jobs: a bar on a terminal, a line of text every few seconds in a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from threading import Event, Thread
from types import TracebackType

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, Task
from rich.table import Table
from rich.text import Text

from .terminal import say
from .wording import duration

LINE_EVERY_S = 5.0
"""Seconds between two lines in a file."""

_LONGEST_NAME = 32
_LEAST_NAME = 12
_LEAST_BAR = 10
_WIDEST_BAR = 40
_TIME = len("0:00:00")


class JobProgress(Progress):
    """Progress of a job; start it as a context, and add one task.

    A narrow terminal keeps bar, count and remaining time. If there is room, it also shows the name of the
    step (the description of the task), the elapsed time, and as many of the task's `details` as fit. Details
    are texts, the most important first.
    """

    def __init__(self, console: Console, noun: str, left_s: Callable[[], float | None] | None = None) -> None:
        """`noun` names what is counted; `left_s` estimates the seconds to the end, else the count does."""
        super().__init__(console=console, speed_estimate_period=300.0)
        self._noun, self._own_left_s = noun, left_s
        self._ended = Event()
        self._lines = Thread(target=self._print_lines, name="progress lines", daemon=True)

    def start(self) -> None:
        if self.console.is_terminal:
            super().start()
        elif self._lines.ident is None:
            self._lines.start()

    def stop(self) -> None:
        if self.console.is_terminal:
            super().stop()
        elif self._lines.is_alive():
            self._ended.set()
            self._lines.join()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def make_tasks_table(self, tasks: Iterable[Task]) -> Table:
        grid = Table.grid(padding=(0, 1))
        for task in tasks:
            cells = self._cells(task, self.console.width)
            while len(grid.columns) < len(cells):
                grid.add_column(no_wrap=True)
            grid.add_row(*cells)
        return grid

    def _cells(self, task: Task, width: int) -> list[RenderableType]:
        """Parts of the line that fit into `width` characters."""
        left_s = self._left_s(task)
        left = f"{_clock(left_s)} left" if left_s is not None else "-:--:-- left"
        room = width - _LEAST_BAR - 1 - len(_count(task)) - 1 - len(left)
        name, wanted = "", min(len(task.description), _LONGEST_NAME)
        if wanted and room > min(wanted, _LEAST_NAME):
            name = f"{task.description:.{min(wanted, room - 1)}}"
            room -= len(name) + 1
        elapsed = ""
        if room > _TIME:
            elapsed = _clock(task.elapsed or 0.0)
            room -= len(elapsed) + 1
        details: list[str] = []
        for text in task.fields.get("details", ()):
            if room <= len(text) + 1:
                break
            details.append(text)
            room -= len(text) + 2
        bar = min(_LEAST_BAR + max(room, 0), _WIDEST_BAR)
        room -= bar - _LEAST_BAR
        if name:  # so that the bar keeps its place while names change
            name = name.ljust(min(len(name) + max(room, 0), _LONGEST_NAME))
        texts = (_count(task), elapsed, left, ", ".join(details))
        return [
            *([Text(name)] if name else []),
            BarColumn(bar_width=bar).render(task),
            *(Text(text) for text in texts if text),
        ]

    def _print_lines(self) -> None:
        while not self._ended.wait(LINE_EVERY_S):
            for task in self.tasks:
                say(self.console, self.line(task))

    def line(self, task: Task) -> str:
        """The state of a task as one line."""
        left_s = None if task.finished else self._left_s(task)
        parts = [f"{_count(task)} {self._noun}"]
        parts += [f"about {duration(left_s)} left"] if left_s is not None else []
        parts += [task.description] if task.description else []
        return f"{duration(task.elapsed or 0.0)}: {', '.join([*parts, *task.fields.get('details', ())])}"

    def _left_s(self, task: Task) -> float | None:
        if self._own_left_s is not None:
            return self._own_left_s()
        return 0.0 if task.finished else task.time_remaining


def _clock(seconds: float) -> str:
    return str(timedelta(seconds=max(0, int(seconds))))


def _count(task: Task) -> str:
    return f"{task.completed:.0f}/{'?' if task.total is None else f'{task.total:.0f}'}"


def job_progress(
    console: Console, noun: str = "tasks", left_s: Callable[[], float | None] | None = None
) -> JobProgress:
    """Progress with bar, count and remaining time; `noun` names what is counted, for the lines of a file."""
    return JobProgress(console, noun, left_s)
