"""Tables of the pages, written from the results. Most are declared in YAML (`declare.py`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from . import gpu, models, records, summaries
from .declare import declared
from .reading import Results

TABLES: Mapping[str, Callable[[Results], str]] = {
    "today": summaries.today,
    "hardware-features": models.hardware_features,
    "records": records.records,
    "low-peaks": records.low_peaks,
    "label-noise": records.label_noise,
    "gpu-campaign": gpu.stages,
    **declared(),
}
"""Name in `<!-- table: NAME -->` -> function that writes the table."""
