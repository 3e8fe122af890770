"""`foretune tune`: tunes a network with a pretrained cost model, compiles, checks, times and reports it."""

from __future__ import annotations

import time

import psutil
from omegaconf import DictConfig
from rich.console import Console

from ..configuration import from_hydra
from .run.config import TuneConfig
from .run.network_run import NetworkRun
from .run.result import TuneResult
from .run.set_run import SetRun


def run(config: TuneConfig, console: Console | None = None, started: float | None = None) -> TuneResult:
    """Tunes, compiles, checks and times a network, and writes the report. Raises UserError.

    `started` is the time at which the run began, on `time.time`'s clock, if that was before this call.
    """
    kind = SetRun if config.is_set else NetworkRun
    return kind(config, console or Console(), started or time.time()).run()


def main(config: DictConfig) -> None:
    """Entry point of `foretune tune`."""
    run(from_hydra(config, TuneConfig), started=psutil.Process().create_time())
