"""Files that are written whole or not at all, and errors of disks that are full or read-only."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path

import pytest
from foretune.files import CannotWriteError, check_writable, disk_errors, write_whole, written_whole
from support.disks import FULL, READ_ONLY, refuse_writing


@pytest.fixture
def small_files() -> Iterator[None]:
    """A limit of 4 kB a file; the system refuses to write more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_file_is_replaced_whole_and_its_folder_is_made(tmp_path: Path) -> None:
    path = tmp_path / "new" / "report.json"
    write_whole(path, "first")
    write_whole(path, b"second")
    assert path.read_text() == "second" and list(path.parent.iterdir()) == [path]


def test_a_folder_is_made_whole(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), written_whole(tmp_path / "a") as partial:
        partial.mkdir()
        (partial / "file").touch()
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []
    with written_whole(tmp_path / "a") as partial:
        partial.mkdir()
        (partial / "file").touch()
    assert [path.name for path in tmp_path.rglob("*")] == ["a", "file"]


def test_what_does_not_fit_leaves_the_earlier_file(tmp_path: Path, small_files: None) -> None:
    path = tmp_path / "report.json"
    write_whole(path, "earlier")
    with pytest.raises(CannotWriteError) as raised:
        write_whole(path, "x" * 5000, field="output", kept="the schedules are kept in db")
    assert str(raised.value) == (
        f"output={path}: cannot be written (File too large): free some space, or name another path; "
        "the schedules are kept in db"
    )
    assert raised.value.reason == "File too large"
    assert path.read_text() == "earlier" and list(tmp_path.iterdir()) == [path]


def test_an_error_names_the_file_that_the_system_names(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    told = r"file/below: cannot be written \(Not a directory\).*; all is there$"
    with (
        pytest.raises(CannotWriteError, match=told),
        disk_errors(tmp_path, field="database", kept="all is there"),
    ):
        (tmp_path / "file" / "below").write_text("")
    with (
        pytest.raises(CannotWriteError, match=rf"^database={tmp_path}: cannot be written \(No space left"),
        disk_errors(tmp_path, field="database"),
        Path("/dev/full").open("w") as full,
    ):
        full.write("x")


def test_what_is_kept_is_said_once(tmp_path: Path) -> None:
    with (
        pytest.raises(CannotWriteError) as raised,
        disk_errors(tmp_path, kept="all is there"),
        disk_errors(tmp_path, kept="all is there"),
    ):
        raise OSError(FULL, "No space left on device")
    assert str(raised.value).count("all is there") == 1


def test_other_errors_pass(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), disk_errors(tmp_path):
        (tmp_path / "none").read_text()


def test_a_path_that_can_be_written_stays_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("content")
    for path in (tmp_path / "there", tmp_path / "a" / "b" / "c.so"):
        check_writable(path, "export")
    check_writable(tmp_path / "a" / "b", "output", folder=True)
    assert [path.name for path in tmp_path.rglob("*")] == ["there"]
    assert (tmp_path / "there").read_text() == "content"


@pytest.mark.parametrize("folder", [False, True])
def test_a_path_below_a_file_is_noticed(tmp_path: Path, folder: bool) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file" / "a", tmp_path / "file" / "b" / "a"):
        with pytest.raises(CannotWriteError, match=rf"^export={path}: cannot be written \(Not a directory\)"):
            check_writable(path, "export", folder=folder)
    with pytest.raises(CannotWriteError, match=r"^export=.*: cannot be written \((Is|Not) a directory\)"):
        check_writable(tmp_path if not folder else tmp_path / "file", "export", folder=folder)


def test_a_file_system_without_new_folders_is_noticed() -> None:
    with pytest.raises(CannotWriteError, match=r"output=/proc/none/report: cannot be written \("):
        check_writable(Path("/proc/none/report"), "output", folder=True)


@pytest.mark.parametrize(
    ("number", "reason"), [(READ_ONLY, "Read-only file system"), (FULL, "No space left")]
)
def test_a_disk_that_takes_nothing_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, reason: str
) -> None:
    refuse_writing(monkeypatch, tmp_path, number)
    for path, folder in ((tmp_path / "new" / "a", False), (tmp_path, True)):
        with pytest.raises(CannotWriteError, match=rf"^output={path}: cannot be written \({reason}"):
            check_writable(path, "output", folder=folder)
