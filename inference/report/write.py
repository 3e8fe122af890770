"""Files of a report: `report.json` and the self-contained page `report.html`."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from ...page import to_html
from ..run.result import TuneResult
from ..run.result_file import save_result
from .content import report_page
from .plots import Drawn


class ReportPaths(NamedTuple):
    """Files of a report."""

    json: Path
    html: Path


def write_report(result: TuneResult, folder: Path, drawn: Drawn | None = None) -> ReportPaths:
    """Writes `report.json` and `report.html` into `folder`, which it creates if needed.

    `drawn` holds plots of the page that exist already.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = ReportPaths(folder / "report.json", folder / "report.html")
    save_result(result, paths.json)
    paths.html.write_text(to_html(report_page(result, drawn)), encoding="utf-8")
    return paths
