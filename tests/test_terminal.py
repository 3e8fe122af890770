"""Console, tables and facts, on terminals of any width and in files."""

from __future__ import annotations

import io
import logging
import os
import pty
import re
import subprocess
import sys

import pytest
from foretune.page import Column, Fact, Table, columns
from foretune.terminal import CommandConsole, LogFile, LogHandler, print_facts, print_table, say, short_path

ROWS = [["fused_conv2d_add_relu_with_a_long_name", "1,234,567", "193", "0.00287"]] * 2
NUMBERS = Table("Rates", columns("task", "records", "best GFLOP/s", "score"), ROWS)


def printed(table: Table, width: int) -> str:
    console = CommandConsole(file=io.StringIO(), width=width)
    print_table(table, console)
    return console.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize("width", range(8, 121, 4))
def test_no_width_cuts_a_number(width: int) -> None:
    words = printed(NUMBERS, width).replace(":", " ").split()
    for number in ROWS[0][1:]:
        assert words.count(number) == 2


@pytest.mark.parametrize("width", range(40, 121, 8))
def test_lines_stay_within_the_width(width: int) -> None:
    assert max(map(len, printed(NUMBERS, width).splitlines())) <= width


def test_columns_that_do_not_fit_follow_in_a_block_with_the_names() -> None:
    cells = ["resnet18", *(f"{number:.3f}" for number in range(12))]
    wide = Table("Models", columns("network", *(f"model{number}" for number in range(12))), [cells])
    text = printed(wide, 60)
    assert text.count("resnet18") == 3 and text.count("Models") == 1
    assert [word for word in text.split() if re.fullmatch(r"\d+\.\d{3}", word)] == cells[1:]


def test_identifiers_and_paths_are_never_cut() -> None:
    path = "outputs/train/2026-11-30_08-00-00/" + "x" * 40
    table = Table(
        "",
        [Column("checkpoint", text=True, whole=True), Column("top-1"), Column("R2")],
        [[path, "0.5", "0.7"]],
    )
    assert path in printed(table, 60)


def test_droppable_columns_go_before_texts_wrap() -> None:
    heads = [Column("task", text=True), Column("operator", text=True), Column("MB", drop=1), Column("ms")]
    table = Table("", heads, [["conv", "batch matmul with a bias", "77", "5.5"]])
    assert "77" in printed(table, 80) and "77" not in printed(table, 38)
    assert "5.5" in printed(table, 38)


def test_a_rule_and_bold_cells_are_of_the_terminal_alone() -> None:
    table = Table("", columns("model", "top-1"), [["a", "0.9"], ["b", "0.8"]], bold={(0, 1)}, rules={0})
    console = CommandConsole(file=io.StringIO(), width=60, force_terminal=True, color_system="standard")
    print_table(table, console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert re.search(r"\x1b\[1m\s*0\.9", text) and not re.search(r"\x1b\[1m\s*0\.8", text)
    assert "\x1b" not in printed(table, 60)


@pytest.mark.parametrize("width", [30, 60, 100])
def test_facts_keep_numbers_and_their_units_in_one_piece(width: int) -> None:
    facts = [
        Fact("Rate of the best programs", "317 GFLOP/s", "maximum over the tasks; their median is 85.0"),
        Fact("weights", "SHA-256 " + "ab" * 32, ""),
        Fact("Energy", "1.25 kWh, 0.5 kg CO2 of a run", "assuming 65 W"),
    ]
    console = CommandConsole(file=io.StringIO(), width=width)
    print_facts(facts, console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "ab" * 32 in text and "317 GFLOP/s" in text
    assert {"85.0", "65", "1.25", "maximum"} <= set(text.split())


def test_escape_codes_of_names_do_not_reach_the_terminal() -> None:
    evil = "task\x1b]0;title\x07\x1b[2J\x9b31m\N{RIGHT-TO-LEFT OVERRIDE}x"
    console = CommandConsole(file=io.StringIO(), width=100, force_terminal=True)
    say(console, evil, "red")
    console.print(evil)
    print_table(Table("", columns("task"), [[evil]]), console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert not re.sub(r"\x1b\[[\d;]*m", "", text).count("\x1b")  # only the console's own colours
    assert "\x9b" not in text and "\x07" not in text and "\N{RIGHT-TO-LEFT OVERRIDE}" not in text
    assert "]0;title" in text


def test_a_file_gets_the_steps_as_lines_and_messages_unbroken(monkeypatch) -> None:
    file = io.StringIO()
    with CommandConsole(file=file).status("turning [a] into tasks"):
        pass
    monkeypatch.setattr(sys, "stdout", file)
    message = "fine-tuning on " + "many records and " * 10
    LogHandler().handle(logging.LogRecord("foretune", logging.INFO, "", 0, message, None, None))
    LogHandler().handle(logging.LogRecord("foretune", logging.WARNING, "", 0, "100%", None, None))
    assert file.getvalue() == f"turning [a] into tasks\n{message}\nwarning: 100%\n"


def test_paths_are_relative_inside_the_current_folder(tmp_path) -> None:
    assert short_path(tmp_path / "a" / "b") == "a/b" and short_path(tmp_path / "a") == "./a"
    assert short_path(tmp_path.parent) == str(tmp_path.parent)


SCRIPT = """
import sys
from foretune.errors import UserError, exits_cleanly, print_any_character
from foretune.page import Table, columns
from foretune.terminal import CommandConsole, print_table, say
print_any_character()
with exits_cleanly():
    console = CommandConsole()
    with console.status("working"):
        say(console, "n\\u00e4me \\u00b1 1 \\u2026 \\udcff")
    print_table(Table("", columns("a", "b"), [["\\u00e4" * 90, "193"]]), console)
    {more}
    sys.stdout.flush()
"""


@pytest.mark.parametrize("settings", [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C"}, {"LANG": "C"}])
def test_any_encoding_works(settings: dict[str, str]) -> None:
    environment = {**os.environ, **settings}
    words = [sys.executable, "-c", SCRIPT.format(more="raise UserError('fehlt: \\u00e4')")]
    done = subprocess.run(words, capture_output=True, env=environment)
    assert done.returncode == 2 and done.stderr.startswith(b"error: fehlt: ")
    assert b"193" in done.stdout
    if "PYTHONIOENCODING" in settings:
        assert b"n\\xe4me +- 1 ~ \\udcff" in done.stdout and done.stdout.isascii()


def test_a_terminal_without_unicode_gets_a_plain_spinner() -> None:
    own, other = pty.openpty()
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "TERM": "xterm", "COLUMNS": "60"}
    words = [sys.executable, "-c", SCRIPT.format(more="")]
    with subprocess.Popen(words, stdout=other, env=environment) as child:
        os.close(other)
        text = b""
        try:
            while part := os.read(own, 4096):
                text += part
        except OSError:  # the other end is closed
            pass
    os.close(own)
    assert child.returncode == 0 and b"working" in text and b"\\u28" not in text


@pytest.mark.parametrize("more", ["print('y' * 2_000_000)", "say(console, 'y' * 2_000_000)"])
def test_a_lost_reader_ends_the_command_quietly(more: str) -> None:
    words = [sys.executable, "-c", SCRIPT.format(more=more)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        child.stdout.readline()  # type: ignore[union-attr]
        child.stdout.close()  # type: ignore[union-attr]
        errors = child.stderr.read()  # type: ignore[union-attr]
    assert (child.returncode, errors) == (141, b"")


def test_a_broken_pipe_to_another_process_stays_an_error() -> None:
    with pytest.raises(BrokenPipeError):
        from foretune.errors import exits_cleanly

        with exits_cleanly():
            raise BrokenPipeError


@pytest.mark.parametrize("path", ["/dev/full", "/no/such/folder/log"])
def test_a_log_file_without_room_prints_no_traceback(capfd, path) -> None:
    handler = LogFile(path, encoding="utf-8", delay=True)
    handler.handle(logging.LogRecord("foretune", logging.INFO, "", 0, "message", None, None))
    handler.close()
    assert capfd.readouterr() == ("", "")


def test_a_wrong_message_of_a_log_file_is_still_told(capfd, tmp_path) -> None:
    handler = LogFile(tmp_path / "log", encoding="utf-8", delay=True)
    handler.handle(logging.LogRecord("foretune", logging.INFO, "", 0, "%d", ("x",), None))
    handler.close()
    assert "TypeError" in capfd.readouterr().err
