"""A report in the terminal."""

from __future__ import annotations

import io
import subprocess
import sys

from foretune.inference.report.terminal import print_profile, print_report
from foretune.inference.run.core_timeline import THIS, CoreSample
from foretune.inference.run.result import EAGER, TUNED, Contestant, TuneResult
from rich.console import Console
from support.results import NO_DATA, make_contestant, make_result, make_task


def printed(result: TuneResult, width: int = 140) -> str:
    """The terminal report as plain text."""
    console = Console(width=width, file=io.StringIO())
    print_report(result, console)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_terminal_report() -> None:
    text = printed(make_result())
    conv, dense = text.index("fused_conv2d_add_relu"), text.index("fused_dense_add")
    assert conv < dense < text.index("one run of the network") < text.index("Compared with untuned TVM")
    assert "5.00x faster" in text and "80.0%" in text and "2.00x slower" in text


def test_contestants_are_told_with_their_remarks() -> None:
    contestants = [
        make_contestant(TUNED, 0.006),
        make_contestant("ONNX Runtime", 0.0066),
        make_contestant(EAGER, 0.012, disturbed=True),
        Contestant("OpenVINO", error="killed by signal 11"),
    ]
    result = make_result(contestants=contestants, left_out={"torch.compile": "it needs a C++ compiler"})
    lines = {line.split("  ")[1].strip(): line for line in printed(result).splitlines() if "  " in line}
    assert "1.10x" in lines["ONNX Runtime"] and "best rival" in lines["ONNX Runtime"]
    assert "disturbed" in lines[EAGER] and "2.00x" not in lines[EAGER]
    assert "killed by signal 11" in lines["OpenVINO"]
    assert "torch.compile is left out: it needs a C++ compiler." in printed(result)


def test_narrow_terminal_drops_columns_instead_of_digits() -> None:
    wide, narrow = printed(make_result()), printed(make_result(), width=80)
    assert "Scored" in wide and "Scored" not in narrow
    assert "Share" in narrow and "Speed-up" in narrow
    table = narrow[: narrow.index("Compared with")]
    assert "\N{HORIZONTAL ELLIPSIS}" not in table


def test_terminal_takes_names_literally() -> None:
    assert "conv[bold]x" in printed(make_result(tasks=[make_task("conv[bold]x")]))


def test_terminal_report_without_data() -> None:
    assert "not compared" in printed(NO_DATA)


def test_the_profile_is_sorted_and_adds_up() -> None:
    console = Console(width=100, file=io.StringIO())
    cores = [
        CoreSample(4.0, "import", {THIS: 4.0}),
        CoreSample(6.0, "search", {THIS: 0.5, "searching": 1.5}),
        CoreSample(12.0, "search", {"searching": 6.0, "measuring": 5.0}),
    ]
    times = {"features": 1.0, "building": 3.0}
    print_profile(make_result(profile_s=times, cores=cores, available_cores=2), console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    rows = {line.split()[1]: line.split()[2:] for line in text.splitlines() if line[:4] in ("  1 ", "  2 ")}
    # Wall time, this process, searching, measuring, idle: the last four are two cores' wall time.
    assert rows == {
        "import": ["4.0", "4.0", "0.0", "0.0", "4.0"],
        "search": ["8.0", "0.5", "7.5", "5.0", "3.0"],
    }
    assert text.index("building") < text.index("features") and "75.0%" in text


def test_printing_imports_no_plots() -> None:
    command = "import sys, foretune.inference.report.terminal; sys.exit('matplotlib' in sys.modules)"
    subprocess.run([sys.executable, "-c", command], check=True)


def test_a_long_name_squeezes_out_no_number() -> None:
    long, short = make_task("fused_" + "transpose_reshape_" * 10), make_task("fused_transpose" + 21 * "e")
    lines = [printed(make_result(tasks=[task]), width=80).splitlines() for task in (long, short)]
    (cut,), (whole,) = ([line for line in each if "fused_transpose" in line] for each in lines)
    assert "\N{HORIZONTAL ELLIPSIS}" in cut
    assert cut.split()[1:] == whole.split()[1:]
