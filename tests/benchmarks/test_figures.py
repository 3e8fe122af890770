"""Pages agree with the results, and each result says how it was measured."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.paths import ROOT

from benchmarks import figures
from benchmarks.common import MANIFEST_FIELDS, RESULTS, machine_name, read_json, write_json
from benchmarks.tables import TABLES
from benchmarks.tables.reading import SUPERSEDED, Results, duration, markdown, milliseconds, times

LIMIT_BYTES = 5_000_000
MOST_WORDS_OF_THE_FIRST, MOST_WORDS = 1500, 2500
RESULT_PAGES = [ROOT / "docs" / "results.md", *sorted((ROOT / "docs" / "results").glob("*.md"))]
RATIO = re.compile(r"(?<![\w.])\d+(?:\.\d+)?x\b")
RESULT_FILES = sorted(RESULTS.glob("*/*/result.json"))


@pytest.mark.parametrize("page", figures.pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_agree_with_the_results(page):
    text = page.read_text(encoding="utf-8")
    assert figures.with_tables(text, Results(), page.name) == text, "run `make figures`"


def test_every_table_is_on_a_page():
    text = "".join(page.read_text(encoding="utf-8") for page in figures.pages())
    assert [name for name in TABLES if f"<!-- table: {name} -->" not in text] == []


def test_a_table_follows_its_result(tmp_path):
    shutil.copytree(RESULTS, tmp_path / "results")
    path = tmp_path / "results" / "pooling" / "xeon-167" / "result.json"
    result = json.loads(path.read_text())
    for layer in result["layers"]:
        layer["latency_s"]["joined"] /= 2
    write_json(path, result)
    text = "<!-- table: pooling -->\n<!-- /table -->\n"
    before = figures.with_tables(text, Results())
    after = figures.with_tables(text, Results(tmp_path / "results"))
    assert "75.0 us" in before and "75.0 us" not in after
    assert "37.5 us" in after
    assert figures.with_tables(before, Results()) == before  # the text between the markers is replaced


def test_an_unknown_table_is_refused():
    with pytest.raises(
        figures.MarkerError, match=r"page: there is no table 'netwroks'; the tables are today"
    ):
        figures.with_tables("<!-- table: netwroks -->\n<!-- /table -->", Results(), "page")


@pytest.mark.parametrize(
    "text",
    [
        "<!-- table: today -->\n",
        "<!-- /table -->",
        "<!-- table: today -->\n<!-- table: today -->\n<!-- /table -->",
        "<!-- table: today --> <!-- /table -->",  # not on lines of their own
    ],
)
def test_markers_come_in_pairs(text):
    with pytest.raises(figures.MarkerError, match="needs a <!-- /table --> of its own"):
        figures.with_tables(text, Results())


def test_a_check_fails_where_a_page_differs_and_writes_nothing(tmp_path, monkeypatch, capsys):
    page = tmp_path / "README.md"
    page.write_text("<!-- table: pooling -->\nby hand\n<!-- /table -->\n")
    monkeypatch.setattr(figures, "ROOT", tmp_path)
    monkeypatch.setattr(figures, "pages", lambda: [page])
    monkeypatch.setattr(sys, "argv", ["figures", "--check"])
    with pytest.raises(SystemExit, match="run `make figures`"):
        figures.main()
    assert "by hand" in page.read_text() and "README.md: differs" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["figures"])
    figures.main()
    assert "EfficientNet-B0" in page.read_text()
    monkeypatch.setattr(sys, "argv", ["figures", "--check"])
    figures.main()


@pytest.mark.parametrize(
    "path", RESULT_FILES, ids=lambda path: f"{path.parent.parent.name}/{path.parent.name}"
)
def test_every_result_has_a_manifest(path):
    manifest = read_json(path.parent / "manifest.json")
    assert set(MANIFEST_FIELDS) <= set(manifest)
    parts = [manifest["machine"]] + ([manifest["variant"]] if manifest["variant"] else [])
    assert [manifest["benchmark"], "-".join(parts)] == [path.parent.parent.name, path.parent.name]
    if manifest["reconstructed"]:
        assert "in commit " in manifest["notes"] and manifest["committed_on"]
    else:
        unknown = [name for name in MANIFEST_FIELDS if manifest[name] is None]
        assert unknown == [], "a measured result knows these"
        assert machine_name(manifest["hardware"]) == manifest["machine"]


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no checkout of git")
def test_raw_results_are_committed():
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "benchmarks/results"], capture_output=True, text=True, check=True
    ).stdout.split()
    used = [path.parent / name for path in RESULT_FILES for name in ("result.json", "manifest.json")]
    assert [path for path in used if str(path.relative_to(ROOT)) not in listed] == []


def test_superseded_results_are_there():
    assert [name for name in SUPERSEDED if not (RESULTS / name / "result.json").is_file()] == []


def prose(page: Path) -> str:
    """A page without its tables and code."""
    return re.sub(r"`[^`]*`", "", figures.MARKED.sub("", page.read_text(encoding="utf-8")))


@pytest.mark.parametrize("page", RESULT_PAGES, ids=lambda page: page.stem)
def test_pages_of_results_are_short(page):
    most = MOST_WORDS if page.parent.name == "results" else MOST_WORDS_OF_THE_FIRST
    assert len(figures.MARKED.sub("", page.read_text(encoding="utf-8")).split()) <= most


@pytest.mark.parametrize("page", RESULT_PAGES, ids=lambda page: page.stem)
def test_ratios_in_the_text_are_in_a_table_of_the_page(page):
    """Ratios of papers and goals are written as "1.2 times"."""
    tables = " ".join(match[0] for match in figures.MARKED.finditer(page.read_text(encoding="utf-8")))
    measured = set(RATIO.findall(tables))
    assert [ratio for ratio in RATIO.findall(prose(page)) if ratio not in measured] == []


def test_a_result_without_a_manifest_is_no_result(tmp_path):
    write_json(tmp_path / "builder_start" / "zen3" / "result.json", {"seconds": {}})
    with pytest.raises(FileNotFoundError, match=r"manifest\.json"):
        Results(tmp_path).of("builder_start")


def test_results_are_small_and_nothing_else_lies_among_them():
    files = [path for path in RESULTS.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < LIMIT_BYTES
    known = {"result.json", "manifest.json"}
    assert [path for path in files if path.name not in known and path.parent.name != "programs"] == []
    assert len(RESULT_FILES) > 15


def test_numbers_are_written_with_their_digits():
    assert [times(value) for value in (1.265, 9.949, 9.951, 142.4)] == ["1.26x", "9.95x", "10x", "142x"]
    assert [milliseconds(value) for value in (0.1262, 0.04951, 1.52e-6)] == [
        *("126 ms", "49.5 ms", "0.00152 ms"),
    ]
    assert [duration(value) for value in (4.44, 43.4, 70.4, 988, 7000)] == [
        *("4.4 s", "43 s", "1 min 10 s", "16 min", "1.9 h"),
    ]
    assert markdown(["a", "b"], [["1", "2"]], "Note.") == "| a | b |\n| --- | --- |\n| 1 | 2 |\n\nNote."
