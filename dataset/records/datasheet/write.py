"""Writes the datasheet of a dataset: its contents, its collection and its limits.

The datasheet has two forms beside the shards: Markdown for a repository, and an HTML page with plots. Its
sections follow "Datasheets for Datasets" (Gebru et al. 2021): composition, collection and limits of use.
"""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from ....errors import UserError
from ....page import fact_html, figure_html, page_html, table_html
from ..store import RecordStore
from .content import facts, limits, method, sections
from .overview import Overview, read_overview
from .plots import plots

LABEL_NOISE_FILE = "label_noise.json"

_CONTENT = Template(
    """<dl class="facts">
$facts
</dl>
<div class="plots">
$plots
</div>
$sections
<section class="card">
<h2>How to read it</h2>
$method
</section>
<section class="card">
<h2>Known limits</h2>
<ul>
$limits
</ul>
</section>
"""
)


class LabelNoiseError(UserError, ValueError):
    """The file is not a result of `python -m benchmarks.label_noise`."""


def write_datasheet(store: RecordStore, label_noise: Path | None = None) -> Path:
    """Write `datasheet.md` and `datasheet.html` into the dataset; returns the path of the first.

    `label_noise` is a result of `python -m benchmarks.label_noise`; it is copied into the dataset for later
    datasheets. Raises StoreError, LabelNoiseError.
    """
    overview = read_overview(store)
    kept = store.folder / LABEL_NOISE_FILE
    if label_noise:
        _read_label_noise(label_noise)
        store.put_file(LABEL_NOISE_FILE, label_noise.read_bytes())
    noise = _read_label_noise(kept) if kept.exists() else None
    path = store.folder / "datasheet.md"
    store.put_file(path.name, _markdown(overview, noise).encode())
    store.put_file(path.with_suffix(".html").name, _page(overview, noise).encode())
    return path


def _read_label_noise(path: Path) -> dict[str, Any]:
    needed = {"records", "median_relative_difference", "median_hours_between", "hardware"}
    try:
        noise = json.loads(path.read_text(encoding="utf-8"))
        missing = sorted(needed - noise.keys())
    except (OSError, ValueError, AttributeError) as error:
        raise LabelNoiseError(
            f"label_noise={path}: {error}; use the JSON of `python -m benchmarks.label_noise`"
        ) from error
    if missing:
        raise LabelNoiseError(
            f"label_noise={path} has no {missing[0]}; use the JSON of `python -m benchmarks.label_noise`"
        )
    return noise


def _markdown(overview: Overview, noise: dict[str, Any] | None) -> str:
    summary = [[fact.label, fact.value, fact.detail] for fact in facts(overview, noise)]
    parts = [
        f"# Datasheet of {overview.name}",
        f"Content {overview.content_hash}. The page datasheet.html has the same contents with plots.",
        _markdown_table(["quantity", "value", "details"], summary),
    ]
    for section in sections(overview):
        parts += [f"## {section.title}", _markdown_table(section.columns, section.rows), section.note]
    parts += ["## How to read it", *method(overview)]
    parts += ["## Known limits", "\n".join(f"- {limit}" for limit in limits(overview, noise))]
    return "\n\n".join(filter(None, parts)) + "\n"


def _markdown_table(columns: Any, rows: Any) -> str:
    lines = [columns, ["---", *["---:"] * (len(columns) - 1)], *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _page(overview: Overview, noise: dict[str, Any] | None) -> str:
    devices = ", ".join(sorted({hardware.name for hardware in overview.hardware.values()}))
    content = _CONTENT.substitute(
        facts="\n".join(map(fact_html, facts(overview, noise))),
        plots="\n".join(map(figure_html, plots(overview))),
        sections="\n".join(table_html(s.columns, s.rows, s.note, s.title) for s in sections(overview)),
        method="\n".join(f"<p>{escape(text)}</p>" for text in method(overview)),
        limits="\n".join(f"<li>{escape(limit)}</li>" for limit in limits(overview, noise)),
    )
    return page_html(
        f"Datasheet of {overview.name}",
        f"measured on {devices or 'no described device'} | content {overview.content_hash}",
        content,
    )
