"""Files of the cache: whole ones of this user come back, and the files used last stay."""

from __future__ import annotations

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from foretune.compiler.host.file_cache import FileCache, code_version

CACHE = FileCache("things", 1000)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "foretune" / "things"


def names(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.iterdir())


def test_parts_come_back_as_one_content(folder):
    assert CACHE.load("a") is None
    CACHE.store({"a": [b"1", b"23"], "b": []})
    assert CACHE.load("a") == b"123" and CACHE.load("b") == b""
    assert CACHE.has("a") and not CACHE.has("ab")
    assert names(folder) == ["a", "b"] and folder.stat().st_mode & 0o777 == 0o700
    CACHE.store({"a": [b"4"]})
    CACHE.remove("b")
    CACHE.remove("b")
    assert CACHE.load("a") == b"4" and CACHE.load("b") is None


@pytest.mark.parametrize("damage", [lambda data: data[:-1] + b"4", lambda data: data[:40], lambda data: b""])
def test_a_damaged_file_is_none(damage):
    CACHE.store({"a": [b"123"]})
    path = CACHE.path("a")
    path.write_bytes(damage(path.read_bytes()))
    assert CACHE.load("a") is None


def test_a_file_under_another_name_is_none():
    CACHE.store({"a": [b"123"]})
    shutil.copyfile(CACHE.path("a"), CACHE.path("b"))
    assert CACHE.load("b") is None


def test_a_folder_that_others_may_write_to_is_not_read(folder):
    CACHE.store({"a": [b"123"]})
    folder.chmod(0o777)
    assert CACHE.load("a") is None
    folder.chmod(0o700)
    assert CACHE.load("a") == b"123"


def test_what_cannot_be_written_is_left_out_and_still_read(folder, monkeypatch):
    CACHE.store({"a": [b"123"]})

    def refuse(*_, **__):
        raise PermissionError("read-only")

    for name in ("utime", "replace"):
        monkeypatch.setattr(os, name, refuse)
    CACHE.store({"b": [b"456"]})
    assert CACHE.load("a") == b"123" and names(folder) == ["a"]


def test_a_file_in_place_of_the_folder_is_no_error(folder):
    folder.parent.mkdir(parents=True)
    folder.write_text("a file")
    CACHE.store({"a": [b"123"]})
    assert CACHE.load("a") is None


def test_those_that_were_used_last_stay(folder):
    # A file is its content and 64 bytes; 1000 bytes have room for four.
    for age, name in enumerate("abcd"):
        CACHE.store({name: [bytes(136)]})
        os.utime(CACHE.path(name), (1e9 - age, 1e9 - age))
    assert CACHE.load("d") is not None  # which counts as a use
    CACHE.store({"e": [bytes(136)], "f": [bytes(136)]})
    assert names(folder) == ["a", "b", "d", "e", "f"]
    CACHE.store({"g": [bytes(437)]})  # over half of all
    assert names(folder) == ["a", "b", "d", "e", "f"]
    CACHE.store({"g": [bytes(436)]})
    assert len(names(folder)) == 3 and "g" in names(folder)
    CACHE.store({name: [bytes(336)] for name in "hij"})  # 1200 bytes together
    assert names(folder) == ["h", "i"]


def test_the_rest_of_a_killed_process_makes_room(folder):
    CACHE.store({"a": [b"123"]})
    (folder / ".1.b.things").write_bytes(bytes(2000))
    os.utime(folder / ".1.b.things", (1.0, 1.0))
    CACHE.store({"c": [b"123"]})
    assert names(folder) == ["a", "c"]


def test_writers_at_the_same_time_leave_whole_files(folder):
    contents = [bytes([number]) * 300 for number in range(8)]
    with ThreadPoolExecutor(4) as threads:
        for _ in threads.map(lambda content: FileCache("things", 10_000).store({"a": [content]}), contents):
            assert CACHE.load("a") in (None, *contents)
    assert names(folder) == ["a"] and CACHE.load("a") in contents


def test_the_version_names_the_sources_and_the_libraries():
    sources, *libraries = code_version()
    assert len(sources) == 64 and libraries[0].startswith("apache-tvm ")
