"""Compares cost models on one split of a dataset (`foretune compare`)."""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from typing import Any

import numpy as np
from hydra import compose
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from rich import box
from rich.console import Console
from rich.table import Table

from ..configuration import ConfigError, from_hydra
from ..dataset.features.table import LabelledFeatures
from ..dataset.records.split import SplitConfig
from .comparison.config import CompareConfig, contestants_of
from .comparison.contestants import ModelContestant
from .comparison.data import ComparedData, Load
from .comparison.fits import Entry, FitRunner, TaskSet
from .comparison.learning_curve import training_sets
from .comparison.other_data import with_other_training_data
from .comparison.report import write_report
from .comparison.result import LOWER_IS_BETTER, CurvePoint, ModelComparison, write_comparison
from .evaluation.tables import NETWORK_COLUMNS
from .fitting.config import TrainConfig

COLUMNS = {
    "spearman": "spearman",
    "pairwise_accuracy": "pairs",
    "top_1": "top-1",
    "top_5": "top-5",
    "top_5_sums": "top-5 sums",
    "peak_10": "peak@10",
    "r2": "R2",
    "rmse": "RMSE",
}
"""Metrics of the printed table and their titles, for a narrow terminal; the files contain all metrics."""


def run(
    config: CompareConfig,
    contestants: Sequence[ModelContestant],
    feature_version: str,
    load: Load,
    log: Callable[[str], None] = print,
) -> ModelComparison:
    """Fits the contestants that have no fit yet, and writes compare.json, .csv and .html into `run_dir`.

    `load` reads a dataset with the features of `feature_version`; draft models read the draft vectors of the
    same rows.

    Raises:
      UserError: settings, dataset or split are not usable; the message names the next step.
    """
    for name in ("pytorch_lightning", "lightning.pytorch"):  # which log a banner at each training
        logging.getLogger(name).setLevel(logging.WARNING)
    deadline = time.monotonic() + 60 * config.minutes if config.minutes else math.inf
    left_out: list[str] = []
    compared = ComparedData.read(config, load, log)
    data = compared.data
    tasks = TaskSet.of(data, compared.split.test, compared.networks)
    config.run_dir.mkdir(parents=True, exist_ok=True)
    (config.run_dir / "config.json").write_text(json.dumps(_plain(config), indent=2) + "\n", encoding="utf-8")

    def runner(trained_on: LabelledFeatures, split: SplitConfig) -> FitRunner:
        return FitRunner(trained_on, split, feature_version, config.fits_dir, log, deadline, left_out)

    shared = [c for c in contestants if not config.trains_elsewhere(c.name)]
    entries: list[Entry] = list(runner(data, compared.config).fits(shared, config.seeds, tasks))
    for contestant in contestants:
        settings = config.contestant(contestant.name)
        if settings and settings.dataset:
            log(f"{contestant.name} is trained on {settings.dataset}")
            own = runner(*with_other_training_data(data, compared.split, load(settings.dataset)))
            entries += own.fits([contestant], config.seeds, tasks)
    if not entries:
        raise ConfigError(f"minutes={config.minutes} were over before the first fit: raise minutes")
    entries.sort(key=lambda entry: config.models.index(entry.name))

    points: list[CurvePoint] = []
    learners = [c for c in contestants if c.name in config.curve_models()]
    for training in training_sets(data, compared.config, compared.split, config.curve):
        log(f"curve: {training.records} records of {training.tasks} training tasks")
        fits = runner(training.data, training.split).fits(learners, config.seeds, tasks)
        points += [CurvePoint(training, entry) for entry in fits]

    comparison = ModelComparison(
        config.title, _plain(config), compared.facts | {"left_out": left_out}, tasks, entries, points
    )
    write_comparison(comparison, config.run_dir, config.baseline)
    write_report(comparison, config.run_dir / "compare.html", config.baseline)
    return comparison


def comparison_table(comparison: ModelComparison) -> Table:
    """Table with one line per contestant; the best value of each column is bold."""
    rows = comparison.rows()
    test = comparison.data
    title = f"{test['tasks']['test']} held-out tasks, {test['records']['test']} records"
    if "test_dataset" in test:
        title += f", of {test['test_dataset']}"
    if seeds := max(row.seeds for row in rows) - 1:
        title += f"; means over {seeds + 1} seeds, with deviations in compare.json"
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=0, title=title)
    table.add_column("model", no_wrap=True)
    for name in COLUMNS.values():
        table.add_column(name, justify="right")
    best = {}
    for measure in COLUMNS:
        values = [row.means[measure] for row in rows if not np.isnan(row.means[measure])]
        choose = min if measure in LOWER_IS_BETTER else max
        best[measure] = choose(values) if values else None
    for row in rows:
        cells = []
        for measure in COLUMNS:
            cell = f"{row.means[measure]:.3f}"
            cells.append(f"[bold]{cell}[/]" if row.means[measure] == best[measure] else cell)
        table.add_row(row.name, *cells)
    return table


def networks_table(comparison: ModelComparison) -> Table | None:
    """Table with one line per network and contestant; None if no test task belongs to a network."""
    found = {name: comparison.by_network(name) for name in comparison.names()}
    rows = next(iter(found.values()))
    if not rows:
        return None
    columns = NETWORK_COLUMNS.values()
    table = Table("network", "model", *columns, box=box.SIMPLE_HEAD, pad_edge=False, padding=0)
    for column in table.columns[:2]:
        column.no_wrap = True
    for column in table.columns[2:]:
        column.justify = "right"
    for number, row in enumerate(rows):
        for name, networks in found.items():
            cells = [f"{networks[number][score]:.3f}" for score in NETWORK_COLUMNS]
            title = f"{row['network']} ({row['share']:.0%})" if name == comparison.names()[0] else ""
            table.add_row(title, name, *cells)
        table.add_section()
    return table


def train_settings(name: str, settings: Mapping[str, Any]) -> TrainConfig:
    """Settings of a training, completed by the defaults of conf/train.yaml.

    Raises:
      ConfigError: foretune train would refuse the settings.
    """
    own = dict(settings)
    preset = own.pop("model") if isinstance(own.get("model"), str) else None
    try:
        composed = _defaults(preset).copy()
    except HydraException as error:
        reason = str(error).strip().splitlines()[0]
        raise ConfigError(f"contestants.{name}.train.model: {reason}") from error
    OmegaConf.set_struct(composed, False)
    if "name" in own.get("model", {}):  # given in full, so the default preset's arguments do not apply
        composed.model = own.pop("model")
    try:
        return from_hydra(OmegaConf.merge(composed, own), TrainConfig)  # type: ignore[arg-type]
    except ConfigError as error:
        raise ConfigError(f"contestants.{name}.train: {error}") from error


@cache
def _defaults(preset: str | None) -> DictConfig:
    """Configuration of foretune train with a model preset."""
    # Each trial sets these three; here they only need a value.
    filled = ["dataset=unused", "run_dir=unused", "checkpoint_dir=unused"]
    return compose("train", [*filled, *([f"model={preset}"] if preset else [])])


def _plain(config: CompareConfig) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(json.dumps(asdict(config), default=str))
    return values


def main(config: DictConfig) -> None:
    """Entry of `foretune compare`."""
    from ..dataset.features import FEATURE_VERSION
    from ..dataset.features.dataset import load_labelled_features

    settings = from_hydra(config, CompareConfig)
    print(f"fits are kept: to continue after a stop, add hydra.run.dir={settings.run_dir}")
    contestants = contestants_of(settings, train_settings, FEATURE_VERSION)
    result = run(settings, contestants, FEATURE_VERSION, load_labelled_features)
    for table in filter(None, (comparison_table(result), networks_table(result))):
        Console().print(table)
    if left_out := result.data["left_out"]:
        print(
            f"minutes={settings.minutes} ended before {len(left_out)} fits, which are left out: the same "
            f"command with hydra.run.dir={settings.run_dir} continues"
        )
    print(f"wrote {settings.run_dir / 'compare.json'}, compare.csv and compare.html")
