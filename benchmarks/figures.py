"""Writes every table of README.md, docs/ and benchmarks/README.md from `benchmarks/results`.

    python -m benchmarks.figures            # or: make figures
    python -m benchmarks.figures --check    # status 1 if a page differs from its results

A table stands between `<!-- table: NAME -->` and `<!-- /table -->`; `tables/__init__.py` has the names.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from .common import ROOT
from .tables import TABLES
from .tables.reading import Results

MARKED = re.compile(r"(?P<open><!-- table: (?P<name>[^>]*?) -->\n).*?(?P<close><!-- /table -->)", re.DOTALL)
MARKER = re.compile(r"<!-- (?:table:.*?|/table) -->")


class MarkerError(ValueError):
    """A page has a marker without a table, or without its other half."""


def pages(root: Path = ROOT) -> list[Path]:
    """Pages that may have tables."""
    found = [root / "README.md", root / "benchmarks" / "README.md", *sorted((root / "docs").rglob("*.md"))]
    return [page for page in found if page.is_file()]


def with_tables(text: str, results: Results, page: str = "the page") -> str:
    """The text with all tables rewritten; raises MarkerError."""
    if 2 * len(MARKED.findall(text)) != len(MARKER.findall(text)):
        raise MarkerError(f"{page}: each <!-- table: NAME --> needs a <!-- /table --> of its own")

    def written(match: re.Match[str]) -> str:
        name = match["name"]
        if name not in TABLES:
            raise MarkerError(f"{page}: there is no table {name!r}; the tables are {', '.join(TABLES)}")
        return f"{match['open']}{TABLES[name](results)}\n{match['close']}"

    return MARKED.sub(written, text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; status 1 where a page differs")
    check = parser.parse_args().check
    results, differing = Results(), []
    for page in pages():
        text = page.read_text(encoding="utf-8")
        written = with_tables(text, results, str(page.relative_to(ROOT)))
        if written != text:
            differing.append(page.relative_to(ROOT))
            if not check:
                page.write_text(written, encoding="utf-8")
    for page in differing:
        print(f"{page}: differs from the results" if check else f"wrote {page}")
    if check and differing:
        sys.exit("run `make figures`")


if __name__ == "__main__":
    main()
