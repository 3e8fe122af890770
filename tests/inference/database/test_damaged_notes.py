"""Notes of a tuning database that cannot be read are one error with the file and the line."""

from __future__ import annotations

from pathlib import Path

import pytest
from foretune.inference.database.folder import (
    DEVICE_FILE,
    ROUNDS_FILE,
    DatabaseUnreadableError,
    read_device,
    read_rounds,
)
from foretune.inference.database.tuning_notes import NOTES_FILE, TuningNotes

GOOD = b'{"workload": "a", "rounds": 1, "of": 2, "untuned_s": 1.5}\n'


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b'{"workload": "\xe2a", "rounds": 1, "of": 2}\n', "invalid continuation byte"),
        (b'{"workload": "a" "rounds": 1, "of": 2}\n', "Expecting ',' delimiter"),
        (b'{"workloae": "a", "rounds": 1, "of": 2}\n', "it lacks 'workload'"),
        (b'["a", 1, 2]\n', "list indices must be"),
        (b"[" * 100_000 + b"\n", "recursion"),
        (b'{"workload": "a", "rounds": "x", "of": 2}\n', "invalid literal for int"),
    ],
)
def test_a_damaged_line_is_named(tmp_path: Path, line: bytes, why: str) -> None:
    (tmp_path / ROUNDS_FILE).write_bytes(GOOD + line + GOOD)
    with pytest.raises(DatabaseUnreadableError, match=f"{ROUNDS_FILE}: line 2 cannot be read: .*{why}"):
        read_rounds(tmp_path)


@pytest.mark.parametrize("line", [b'{"workload": [1], "untuned_s": 1}\n', b'{"search": "x", "tasks": "y"}\n'])
def test_a_note_with_a_wrong_value_is_named(tmp_path: Path, line: bytes) -> None:
    (tmp_path / NOTES_FILE).write_bytes(GOOD + line + GOOD)
    with pytest.raises(DatabaseUnreadableError, match=f"{NOTES_FILE}: line 2 cannot be read"):
        TuningNotes(tmp_path / NOTES_FILE)


def test_a_whole_file_is_read(tmp_path: Path) -> None:
    (tmp_path / ROUNDS_FILE).write_bytes(GOOD * 2 + b'{"workload": "cut o')
    assert read_rounds(tmp_path) == {"a": (1, 2)}


@pytest.mark.parametrize("content", [b"\xff", b"[]", b"{}", b'{"target": {}, "hardware": {"name": 1}}'])
def test_a_damaged_description_of_the_device_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / DEVICE_FILE).write_bytes(content)
    with pytest.raises(DatabaseUnreadableError, match=f"{DEVICE_FILE}: line 1 cannot be read"):
        read_device(tmp_path)
