"""Several runs of a command (--multirun): a check of all settings before the first, a table at the end."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from hydra import compose, initialize_config_module
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, open_dict

from .configuration import ConfigError
from .errors import UserError
from .page import Column, Table
from .signals import ENDING, exit_status
from .terminal import CommandConsole, print_table, short_path
from .wording import MISSING, counted, duration, significant


@dataclass(frozen=True)
class RunOutcome:
    """Result of a run that a sweep compares."""

    measure: str
    """What is compared, such as "latency, ms"."""
    value: float | None
    lower_is_better: bool = False
    status: int = 0
    """Exit status of the run."""


@dataclass
class Sweep:
    """Runs of one command line, in the order of the command line."""

    runs: list[SweepRun] = field(default_factory=list)

    @contextmanager
    def run(self) -> Iterator[SweepRun]:
        """One run; a `SystemExit` in it is its status, unless the user interrupted it."""
        run = SweepRun(list(HydraConfig.get().overrides.task), Path(HydraConfig.get().runtime.output_dir))
        began = time.monotonic()
        try:
            yield run
        except SystemExit as end:
            run.status = end.code if isinstance(end.code, int) else 1
            if run.status not in (1, 2):
                raise
        finally:
            run.seconds = time.monotonic() - began
            self.runs.append(run)

    @property
    def status(self) -> int:
        """Exit status of the whole: the worst of its runs."""
        return max((run.status for run in self.runs), default=0)

    def print(self) -> None:
        """Prints the table of the runs."""
        print_table(self.table(), CommandConsole())

    def table(self) -> Table:
        """A row for each run: what distinguishes it, its result, and its folder; the best result first."""
        settings = [dict(text.partition("=")[::2] for text in run.overrides) for run in self.runs]
        names = list(dict.fromkeys(name for given in settings for name in given))
        varied = [name for name in names if len({given.get(name) for given in settings}) > 1]
        measure = next((run.outcome.measure for run in self.runs if run.outcome), "result")
        order = sorted(range(len(self.runs)), key=lambda number: self.runs[number].rank)
        rows = [
            [
                str(number),
                *(settings[number].get(name, "") for name in varied),
                *(self.runs[number].result, duration(self.runs[number].seconds)),
                short_path(self.runs[number].folder),
            ]
            for number in order
        ]
        heads = [
            Column("run", text=True, whole=True),
            *(Column(name, text=True) for name in varied),
            *(Column(measure), Column("time", drop=2), Column("folder", text=True, whole=True, drop=1)),
        ]
        order_named = ", best first" if sum(run.rank[0] == 0 for run in self.runs) > 1 else ""
        return Table(f"{counted(len(rows), 'run')}{order_named}", heads, rows)


@dataclass
class SweepRun:
    """One of the runs."""

    overrides: list[str]
    folder: Path
    outcome: RunOutcome | None = None
    status: int = 0
    seconds: float = 0.0

    @property
    def rank(self) -> tuple[int, float]:
        """Place among the runs: by the result, then those without one, then those that failed."""
        value = self.outcome.value if self.outcome else None
        if self.status > 1 or value is None or math.isnan(value):
            return (2 if self.status > 1 else 1), 0.0
        assert self.outcome is not None
        return 0, value if self.outcome.lower_is_better else -value

    @property
    def result(self) -> str:
        if self.status > 1:
            return "interrupted" if self.status in map(exit_status, ENDING) else "failed"
        value = self.outcome.value if self.outcome else None
        return MISSING if value is None or math.isnan(value) else significant(value)


def check_runs(config_name: str, words: Sequence[str], check: Callable[[DictConfig], None]) -> None:
    """Calls `check` with the settings of each run of a command line.

    Raises:
      HydraException, OmegaConfBaseException: the settings of a run cannot be composed.
      ConfigError: a run would refuse its settings.
    """
    overrides = OverridesParser.create().parse_overrides([word for word in words if word[:1] != "-"])
    (batch,) = BasicSweeper.split_arguments(overrides, None)
    with initialize_config_module("foretune.conf", version_base="1.3"):
        # All are composed first, because a check may take longer.
        composed = [compose(config_name, given, return_hydra_config=True) for given in batch]
        for given, config in zip(batch, composed, strict=True):
            with open_dict(config):
                config.hydra.runtime.output_dir = "."
                config.hydra.job.num = 0
            HydraConfig.instance().set_config(config)
            with open_dict(config):
                del config["hydra"]
            try:
                check(config)
            except UserError as error:
                raise ConfigError(f"a run with {' '.join(given)}: {error}; no run was started") from error
