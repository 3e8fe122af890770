"""Archives that a stranger made: what is no bundle is refused before it is expanded."""

from __future__ import annotations

import stat
import struct
import warnings
import zipfile

import pytest
from foretune.inference.bundle import archive
from foretune.inference.bundle.archive import BundleError, read_archive, write_archive
from support.bundles import zip_of

NAMES = ("manifest.json", "lines.json")
CONTENT = {"manifest.json": b'{"a": 1}', "lines.json": b"[1,2]\n" * 50}
MEMBERS = list(CONTENT.items())


def test_what_is_written_is_read(tmp_path):
    path = tmp_path / "new folder" / "a.zip"
    write_archive(path, CONTENT)
    assert read_archive(path, NAMES) == CONTENT
    assert [file.name for file in path.parent.iterdir()] == ["a.zip"]
    write_archive(tmp_path / "b.zip", CONTENT)
    assert (tmp_path / "b.zip").read_bytes() == path.read_bytes()


def test_what_would_not_be_read_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MOST_MEMBER_BYTES", 100)
    with pytest.raises(BundleError, match=r"a\.zip: its member 'lines\.json' expands to 300 bytes"):
        write_archive(tmp_path / "a.zip", CONTENT)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_exists_stays_as_it_is(tmp_path):
    path = tmp_path / "a.zip"
    path.write_text("mine")
    with pytest.raises(BundleError, match="exists; remove it"):
        write_archive(path, CONTENT)
    assert path.read_text() == "mine"


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(archive.os, "fsync", full)
    with pytest.raises(BundleError, match=r"No space left on device.*name another path"):
        write_archive(tmp_path / "a.zip", CONTENT)
    assert list(tmp_path.iterdir()) == []


def link(name):
    info = zipfile.ZipInfo(name)
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info


@pytest.mark.parametrize(
    ("members", "message"),
    [
        (MEMBERS[:1], r"has no member 'lines\.json'"),
        ([*MEMBERS, ("more.json", b"")], r"'more\.json' is none of manifest\.json, lines\.json"),
        ([*MEMBERS, ("lines.json", b"[]\n")], r"'lines\.json' is there twice"),
        ([*MEMBERS, ("../up.json", b"")], r"'\.\./up\.json' has a path outside"),
        ([*MEMBERS, ("a/../../up.json", b"")], "has a path outside"),
        ([*MEMBERS, ("/etc/passwd", b"")], "'/etc/passwd' has a path outside"),
        ([*MEMBERS, ("C:\\up.json", b"")], "has a path outside"),
        ([*MEMBERS, ("..\\up.json", b"")], "has a path outside"),
        ([MEMBERS[0], (link("lines.json"), b"/etc/passwd")], r"'lines\.json' is a link"),
        ([MEMBERS[0], ("lines.json", b" " * 10**6)], "expands to over 250 times its size, as a zip bomb"),
    ],
)  # fmt: skip
def test_members_that_are_no_bundle_are_named(tmp_path, members, message):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of zipfile, on the duplicate
        path = zip_of(tmp_path / "a.zip", members)
    with pytest.raises(BundleError, match=message):
        read_archive(path, NAMES)
    assert [file.name for file in tmp_path.iterdir()] == ["a.zip"]


def test_another_compression_is_named(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_BZIP2) as file:
        for name, content in MEMBERS:
            file.writestr(name, content)
    with pytest.raises(BundleError, match="by the method 12, not by deflate"):
        read_archive(tmp_path / "a.zip", NAMES)


def patched(path, find, offset, format, value):
    """Writes a number into the archive, so far behind the last place of some bytes."""
    content = bytearray(path.read_bytes())
    struct.pack_into(format, content, content.rindex(find) + offset, value)
    path.write_bytes(content)


def test_an_encrypted_member_is_named(tmp_path):
    path = zip_of(tmp_path / "a.zip", MEMBERS)
    patched(path, b"PK\1\2", 8, "<H", 1)
    with pytest.raises(BundleError, match=r"'lines\.json' is encrypted"):
        read_archive(path, NAMES)


def test_a_member_that_tells_a_smaller_size_than_it_has_is_damage(tmp_path):
    path = zip_of(tmp_path / "a.zip", MEMBERS)
    patched(path, b"PK\1\2", 24, "<I", 6)
    with pytest.raises(BundleError, match="truncated or damaged"):
        read_archive(path, NAMES)


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ("MOST_FILE_BYTES", "over the limit of 100; export fewer schedules"),
        ("MOST_MEMBER_BYTES", r"'lines\.json' expands to 300 bytes, over the limit of 100"),
        ("_MOST_DIRECTORY_BYTES", "its list of members has 1.. bytes, over the limit of 100"),
    ],
)
def test_what_is_larger_than_a_limit_is_not_expanded(tmp_path, monkeypatch, limit, message):
    path = zip_of(tmp_path / "a.zip", MEMBERS)
    monkeypatch.setattr(archive, limit, 100)
    monkeypatch.setattr(zipfile.ZipFile, "read", None)
    with pytest.raises(BundleError, match=message):
        read_archive(path, NAMES)


def test_no_prefix_of_an_archive_is_read(tmp_path):
    path = zip_of(tmp_path / "a.zip", MEMBERS)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(BundleError, match="truncated or damaged"):
            read_archive(path, NAMES)


@pytest.mark.parametrize("name", [".", "nowhere.zip"])
def test_what_is_no_file_is_named(tmp_path, name):
    with pytest.raises(BundleError, match="give a file that foretune bundle export wrote"):
        read_archive(tmp_path / name, NAMES)
