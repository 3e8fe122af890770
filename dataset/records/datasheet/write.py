"""Writes the datasheet of a dataset: its contents, its collection and its limits.

The datasheet is Markdown, and an HTML page with plots in addition. Its sections follow "Datasheets for
Datasets" (Gebru et al. 2021): composition, collection and limits of use.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ....errors import UserError
from ....page import Page, to_html, to_markdown
from ..store import RecordStore
from .content import parts
from .overview import Overview, read_overview
from .plots import plots

LABEL_NOISE_FILE = "label_noise.json"


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
    page = datasheet_page(overview, _read_label_noise(kept) if kept.exists() else None)
    path = store.folder / "datasheet.md"
    store.put_file(path.name, to_markdown(page).encode())
    store.put_file(path.with_suffix(".html").name, to_html(page).encode())
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


def datasheet_page(overview: Overview, noise: dict[str, Any] | None) -> Page:
    """The whole page; `noise` is the content of LABEL_NOISE_FILE, if there is one."""
    devices = ", ".join(sorted({hardware.name for hardware in overview.hardware.values()}))
    return Page(
        f"Datasheet of {overview.name}",
        f"Measured on {devices or 'no described device'} | content {overview.content_hash}",
        parts(overview, plots(overview), noise),
    )
