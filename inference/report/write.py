"""Files of a report: `report.json` and the self-contained page `report.html`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from ...files import write_whole
from ...page import Facts, Page, Plots, Table, columns, to_html
from ...wording import target_words
from ..run.result import TuneResult
from ..run.result_file import save_result
from .alternatives import alternatives_table
from .contestants import contestants_table
from .cores import cores_table
from .coverage import coverage_table
from .facts import banner, details, headline, notes
from .libraries import libraries_table
from .network_time import time_table
from .networks import networks_table
from .plots import Drawn, plots
from .reuse import reuse_table
from .table import tasks_table


def report_page(result: TuneResult, drawn: Drawn | None = None) -> Page:
    """The whole page, without redrawing the plots in `drawn`."""
    source = f"checkpoint {result.checkpoint}" if result.checkpoint else "no checkpoint"
    return Page(
        f"{result.network} tuned for {result.hardware}",
        f"{target_words(result.target)} | {source} | {result.started_at}",
        [
            Facts(headline(result), headline=True),
            networks_table(result),
            contestants_table(result),
            libraries_table(result),
            Plots(plots(result, drawn)),
            tasks_table(result, notes(result)),
            alternatives_table(result),
            reuse_table(result),
            time_table(result),
            Facts(details(result), "More about the run"),
            cores_table(result),
            coverage_table(result.tasks),
            _settings(result),
        ],
        banner(result),
    )


def _settings(result: TuneResult) -> Table:
    versions = {f"{name} version": version for name, version in result.versions.items()}
    rows = [[name, _text(value)] for name, value in {**result.settings, **versions}.items()]
    return Table("Settings and versions", columns("Name", "Value", text=("Value",)), rows, folded=True)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


class ReportPaths(NamedTuple):
    """Files of a report."""

    json: Path
    html: Path


def write_report(result: TuneResult, folder: Path, drawn: Drawn | None = None) -> ReportPaths:
    """Writes `report.json` and `report.html` into `folder`, which it creates if needed.

    Each is written whole or not at all. Raises CannotWriteError.

    `drawn` holds plots of the page that exist already.
    """
    paths = ReportPaths(folder / "report.json", folder / "report.html")
    save_result(result, paths.json)
    write_whole(paths.html, to_html(report_page(result, drawn)))
    return paths
