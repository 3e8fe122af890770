"""Runs of `foretune tune` that measure two templates of each task, the shortest end-to-end runs."""

from __future__ import annotations

from pathlib import Path

from foretune.configuration import from_hydra
from foretune.inference.run.config import TuneConfig

from .composition import composed

SHORT = (
    *("network=support.networks:Convolutions", "inputs=[[1,64,8,8]]", "checkpoint=null"),
    *("search=templates", "search.top_k=2", "search.templates=2", "search.finalists=0"),
    "search.tile_profile=false",  # which is measured for seconds for each data type
    *("timing_repeats=1", "untuned_limit_s=1e-9", "measure.repeats=2", "measure.groups=1"),
    *("search.processes=0", "workers=1"),
)
UNTUNED = ("untuned_limit_s=1",)
"""Override that times the untuned network, too."""


def template_run(folder: Path, *overrides: str) -> TuneConfig:
    """Settings of a run on a small network that works in `folder` and times no untuned network."""
    places = (f"output={folder / 'report'}", f"database={folder / 'database'}")
    return from_hydra(composed("tune", *SHORT, *places, *overrides), TuneConfig)
