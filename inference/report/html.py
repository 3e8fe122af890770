"""A report as one self-contained HTML page."""

from __future__ import annotations

import json
from html import escape
from importlib import resources
from string import Template
from typing import Any

from ...page import fact_html, figure_html, page_html, table_html, target_words
from ..run.result import TuneResult
from .alternatives import ALTERNATIVE_HEADS, ALTERNATIVE_NOTE, ALTERNATIVE_TITLE, alternative_rows
from .contestants import EXPLANATION, HEADS, contestant_rows, left_out
from .coverage import COVERAGE_HEADS, COVERAGE_NOTE, coverage_rows
from .facts import facts, notes
from .network_time import TIME_HEADS, TIME_NOTE, time_rows
from .networks import NETWORK_HEADS, NETWORK_NOTE, network_rows
from .plots import Drawn, plots
from .reuse import REUSE_HEADS, REUSE_NOTE, REUSE_TITLE, reuse_rows
from .table import COLUMNS, WHOLE_NETWORK, Column, Row, rows


def render_page(result: TuneResult, drawn: Drawn | None = None) -> str:
    """The whole page, with the plots in `drawn` as they are; every text of the result is escaped."""
    source = "no checkpoint" if not result.checkpoint else f"checkpoint {result.checkpoint}"
    content = Template(_text("page.html")).substitute(
        facts="\n".join(fact_html(fact) for fact in facts(result)),
        networks=_networks(result),
        plots="\n".join(figure_html(plot) for plot in plots(result, drawn)),
        contestants=_contestants(result),
        table_note=escape(
            "Latencies are of one call. The last line is one run of the network: each task times its weight. "
            "Share is the task's part of the time spent in all tasks. Of peak is what it reaches of the "
            "cores' measured float32 peak; a task that waits for memory reaches little of it."
        ),
        table=_table(rows(result)),
        notes="\n".join(f'<p class="note">{escape(note)}</p>' for note in notes(result)),
        alternatives=_alternatives(result),
        reuse=_reuse(result),
        network_time=_network_time(result),
        coverage=_coverage(result),
        settings="\n".join(_setting(name, value) for name, value in _settings(result).items()),
    )
    return page_html(
        f"{result.network} tuned for {result.hardware}",
        f"{target_words(result.target)} | {source} | {result.started_at}",
        content,
        script=_text("page.js"),
    )


def _text(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _network_time(result: TuneResult) -> str:
    content = time_rows(result)
    return table_html(TIME_HEADS, content, TIME_NOTE, "A run of the network") if content else ""


def _networks(result: TuneResult) -> str:
    content = network_rows(result)
    return table_html(NETWORK_HEADS, content, NETWORK_NOTE, "Networks") if content else ""


def _alternatives(result: TuneResult) -> str:
    content = alternative_rows(result)
    return table_html(ALTERNATIVE_HEADS, content, ALTERNATIVE_NOTE, ALTERNATIVE_TITLE) if content else ""


def _reuse(result: TuneResult) -> str:
    content = reuse_rows(result)
    return table_html(REUSE_HEADS, content, REUSE_NOTE, REUSE_TITLE) if content else ""


def _coverage(result: TuneResult) -> str:
    content = coverage_rows(result.tasks)
    return table_html(COVERAGE_HEADS, content, COVERAGE_NOTE, "Candidates") if content else ""


def _contestants(result: TuneResult) -> str:
    if not result.contestants:
        return ""
    note = " ".join([EXPLANATION, *left_out(result)])
    return table_html(HEADS, contestant_rows(result), note, "Contestants")


def _table(table: list[Row]) -> str:
    heads = "".join(
        f'<th scope="col" data-kind="{"text" if column is COLUMNS[0] else "number"}"'
        f"{' aria-sort=descending' if column is COLUMNS[-1] else ''}>"
        f'<button type="button">{escape(column.title)}</button></th>'
        for column in COLUMNS
    )
    body = "\n".join(f"<tr>{''.join(_cell(column, row) for column in COLUMNS)}</tr>" for row in table)
    totals = "".join(f"<td>{escape(column.footer(table))}</td>" for column in COLUMNS[1:])
    return (
        f"<thead><tr>{heads}</tr></thead>\n<tbody>\n{body}\n</tbody>\n"
        f"<tfoot><tr><td>{WHOLE_NETWORK}</td>{totals}</tr></tfoot>"
    )


def _cell(column: Column, row: Row) -> str:
    value = column.value(row)
    key = "" if value is None else str(value)
    return f'<td data-key="{escape(key)}">{escape(column.cell(row))}</td>'


def _settings(result: TuneResult) -> dict[str, Any]:
    return {**result.settings, **{f"{name} version": version for name, version in result.versions.items()}}


def _setting(name: str, value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return f"<tr><td>{escape(name)}</td><td>{escape(text)}</td></tr>"
