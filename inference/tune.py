"""`foretune tune`: tunes a network with a pretrained cost model, compiles, checks, times and reports it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import psutil
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig
from rich.console import Console

from ..compiler.networks.loading import check_name
from ..configuration import from_hydra
from ..files import check_writable, disk_errors
from ..models.checkpoints.checkpoint import load_card
from ..models.checkpoints.shipped import AUTO
from ..sweep import RunOutcome
from ..terminal import CommandConsole
from .run.config import TuneConfig
from .run.network_run import NetworkRun
from .run.network_set import export_of
from .run.result import TUNED, TuneResult, by_tasks_s
from .run.set_run import SetRun

if TYPE_CHECKING:
    from .dynamic.result import DynamicResult
    from .dynamic.run import DynamicRun


def run(
    config: TuneConfig, console: Console | None = None, started: float | None = None
) -> TuneResult | DynamicResult:
    """Tunes, compiles, checks and times a network, and writes the report. Raises UserError.

    A path that cannot be written is an error before any work. If the disk fills up later, measurements are
    kept. `started` is the time at which the run began, on `time.time`'s clock, if that was before this call.
    """
    _check_paths(config)
    with disk_errors(config.folder, kept=f"what was measured is kept in {config.database}"):
        return _kind(config)(config, console or CommandConsole(), started or time.time()).run()


def _kind(config: TuneConfig) -> type[NetworkRun | SetRun | DynamicRun]:
    if config.is_dynamic:
        from .dynamic.run import DynamicRun  # other runs need none of its imports

        return DynamicRun
    return SetRun if config.is_set else NetworkRun


def _check_paths(config: TuneConfig) -> None:
    """Raises CannotWriteError for a path that the run could not write at its end."""
    check_writable(config.folder, "output", folder=True)
    if not config.require_database:
        check_writable(config.database, "database", folder=True)
    for member in config.members:
        if (library := export_of(config.export, member, config.is_set)) is not None:
            check_writable(library, "export")


def check(config: TuneConfig) -> None:
    """Raises UserError for a network or checkpoint that does not exist, without loading it."""
    for member in config.members:
        check_name(member.network)
    if config.is_dynamic:
        from .dynamic.settings import check_dynamic

        check_dynamic(config)
    if config.checkpoint not in (None, AUTO):
        load_card(config.checkpoint)


def main(config: DictConfig) -> RunOutcome:
    """Entry point of `foretune tune`; several runs are compared by the latency of the tuned network."""
    several = HydraConfig.initialized() and HydraConfig.get().mode == RunMode.MULTIRUN
    # In a sweep, the process is older than the run.
    started = time.time() if several else psutil.Process().create_time()
    settings = from_hydra(config, TuneConfig)
    check(settings)  # before processes start and the machine is measured
    result = run(settings, started=started)
    if not isinstance(result, TuneResult):
        return RunOutcome("tuned ms", None, lower_is_better=True)
    seconds = result.median_s(TUNED) or by_tasks_s(result.tasks, lambda task: task.latency_s)
    return RunOutcome("tuned ms", None if seconds is None else 1e3 * seconds, lower_is_better=True)
