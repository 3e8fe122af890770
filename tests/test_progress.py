"""Progress on terminals of any width, and in files."""

from __future__ import annotations

import io
import time

import foretune.progress as progress_module
import pytest
from foretune.progress import job_progress
from foretune.terminal import CommandConsole

DETAILS = ["38/min", "device 12% busy", "cores 97% busy (building 61%, sampling 35%)"]


def line(width: int, description: str = "fused_conv2d_add_relu") -> str:
    """The line of a job on a terminal of this width."""
    console = CommandConsole(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    progress = job_progress(console, left_s=lambda: 62.0)
    progress.add_task(description, total=12000, completed=11640, details=DETAILS)
    with console.capture() as captured:
        console.print(progress.make_tasks_table(progress.tasks))
    return captured.get().rstrip("\n")


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 160])
def test_bar_count_and_time_left_are_always_there(width: int) -> None:
    text = line(width)
    assert "\n" not in text and len(text) <= width
    assert "11640/12000" in text and "0:01:02 left" in text
    assert text.count("\N{BOX DRAWINGS HEAVY HORIZONTAL}") >= 9


def test_stage_shares_go_first() -> None:
    shown = {width: line(width) for width in range(40, 180)}
    first = [
        min(width for width, text in shown.items() if part in text)
        for part in ("0:00:00 ", *DETAILS)  # the elapsed time, then the details
    ]
    assert first == sorted(first)
    assert "38/min" in shown[80] and "sampling" not in shown[80]
    assert "fused_conv2d_add_relu" in shown[80]


def test_a_file_gets_a_line_every_few_seconds(monkeypatch) -> None:
    monkeypatch.setattr(progress_module, "LINE_EVERY_S", 0.05)
    file = io.StringIO()
    with job_progress(CommandConsole(file=file), "records", lambda: 90.0) as progress:
        bar = progress.add_task("conv", total=10, details=["38/min"])
        for _ in range(40):
            progress.update(bar, completed=4)
            if file.getvalue().count("\n") >= 2:
                break
            time.sleep(0.05)
    lines = file.getvalue().splitlines()
    assert len(lines) >= 2
    assert lines[-1].endswith(" s: 4/10 records, about 1 min 30 s left, conv, 38/min")
    assert "\x1b" not in file.getvalue()
