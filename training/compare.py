"""Compares cost models on one split of a dataset (`foretune compare`)."""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import cache, partial
from typing import Any

from hydra import compose
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf

from ..configuration import ConfigError, from_hydra
from ..dataset.features.table import LabelledFeatures
from ..dataset.records.split import SplitConfig
from ..files import check_writable, disk_errors, write_whole
from ..page import Column, Table
from ..terminal import CommandConsole, print_table, say, short_path
from ..wording import counted, decimal, shell_command, verb
from .comparison.config import CompareConfig, contestants_of
from .comparison.contestants import ModelContestant
from .comparison.data import ComparedData, Load
from .comparison.fits import PER_TASK, Entry, FitRunner, TaskSet
from .comparison.learning_curve import training_sets
from .comparison.other_data import with_other_training_data
from .comparison.report import undecided, write_report
from .comparison.result import CurvePoint, ModelComparison, write_comparison
from .evaluation.tables import NETWORK_COLUMNS
from .fitting.config import TrainConfig
from .fitting.training import alone_in
from .interruption import tells_how_to_continue

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
"""Metrics of the printed table and their titles; the files contain all metrics."""

_DROPPED = {"rmse": 1, "r2": 2, "top_5_sums": 3}
"""Metrics that a narrow terminal leaves out, by order."""


def run(
    config: CompareConfig,
    contestants: Sequence[ModelContestant],
    feature_version: str,
    load: Load,
    log: Callable[[str], None] | None = None,
) -> ModelComparison:
    """Fits the contestants that have no fit yet, and writes compare.json, .csv and .html into `run_dir`.

    `load` reads a dataset with the features of `feature_version`; draft models read the draft vectors of the
    same rows.

    Raises:
      UserError: settings, dataset or split are not usable; the message names the next step.
    """
    log = log or partial(say, CommandConsole())
    for name in ("pytorch_lightning", "lightning.pytorch"):  # which log a banner at each training
        logging.getLogger(name).setLevel(logging.WARNING)
    check_writable(config.run_dir, "run_dir", folder=True)
    check_writable(config.fits_dir, "fits_dir", folder=True)
    kept = f"{config.fits_dir} keeps the finished fits, which run_dir={config.run_dir} reuses"
    with disk_errors(config.run_dir, kept=kept):
        return _compared(config, contestants, feature_version, load, log)


def _compared(
    config: CompareConfig,
    contestants: Sequence[ModelContestant],
    feature_version: str,
    load: Load,
    log: Callable[[str], None],
) -> ModelComparison:
    """`run` with paths that can be written."""
    deadline = time.monotonic() + config.budget_s if config.budget_s else math.inf
    left_out: list[str] = []
    compared = ComparedData.read(config, load, log)
    data = compared.data
    tasks = TaskSet.of(data, compared.split.test, compared.networks)
    write_whole(config.run_dir / "config.json", json.dumps(_plain(config), indent=2) + "\n")

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
        raise ConfigError(f"budget_s={config.budget_s} was over before the first fit: raise it")
    entries.sort(key=lambda entry: config.models.index(entry.name))

    points: list[CurvePoint] = []
    learners = [c for c in contestants if c.name in config.curve_models()]
    for training in training_sets(data, compared.config, compared.split, config.curve):
        of = counted(training.tasks, "training task")
        log(f"curve: {counted(training.records, 'record')} of {of}")
        fits = runner(training.data, training.split).fits(learners, config.seeds, tasks)
        points += [CurvePoint(training, entry) for entry in fits]

    comparison = ModelComparison(
        config.title, _plain(config), compared.facts | {"left_out": left_out}, tasks, entries, points
    )
    write_comparison(comparison, config.run_dir, config.baseline)
    write_report(comparison, config.run_dir / "compare.html", config.baseline)
    return comparison


def comparison_table(comparison: ModelComparison) -> Table:
    """Table with one line per contestant; a value is bold if its model is clearly the best by the metric."""
    rows = comparison.rows()
    test = comparison.data
    tasks = counted(test["tasks"]["test"], "held-out task")
    title = f"{tasks}, {counted(test['records']['test'], 'record')}"
    if "test_dataset" in test:
        title += f", of {test['test_dataset']}"
    if seeds := max(row.seeds for row in rows) - 1:
        title += f"; means over {seeds + 1} seeds, with deviations in compare.json"
    names = comparison.names()
    bold = set()
    for number, measure in enumerate(COLUMNS, 1):
        standing = comparison.standing(measure) if measure in PER_TASK else None
        if standing is not None and standing.clear and len(names) > 1:
            bold.add((names.index(standing.best), number))
    heads = [
        Column("model", text=True),
        *(Column(name, drop=_DROPPED.get(measure, 0)) for measure, name in COLUMNS.items()),
    ]
    cells = [[row.name, *(decimal(row.means[measure]) for measure in COLUMNS)] for row in rows]
    judged = {measure: title for measure, title in COLUMNS.items() if measure in PER_TASK}
    return Table(title, heads, cells, bold=bold, remarks=undecided(comparison, judged))


def networks_table(comparison: ModelComparison) -> Table:
    """Table with one line per network and contestant; empty if no test task belongs to a network."""
    found = {name: comparison.by_network(name) for name in comparison.names()}
    rows = []
    for number, row in enumerate(next(iter(found.values()))):
        for name, networks in found.items():
            cells = [decimal(networks[number][score]) for score in NETWORK_COLUMNS]
            title = f"{row['network']} ({row['share']:.0%})" if name == comparison.names()[0] else ""
            rows.append([title, name, *cells])
    rules = range(len(found) - 1, len(rows), len(found))
    heads = [
        Column("network", text=True),
        Column("model", text=True, whole=True),
        *(Column(title) for title in NETWORK_COLUMNS.values()),
    ]
    return Table("", heads, rows, rules=rules)


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
    console = CommandConsole()
    again = shell_command(f"hydra.run.dir={short_path(settings.run_dir)}")
    say(console, f"fits are kept: to continue after a stop, add {again}")
    contestants = contestants_of(settings, train_settings, FEATURE_VERSION)
    with alone_in(settings.run_dir), tells_how_to_continue(settings.run_dir, resume=False):
        result = run(settings, contestants, FEATURE_VERSION, load_labelled_features)
    for table in (comparison_table(result), networks_table(result)):
        print_table(table, console)
    if left_out := result.data["left_out"]:
        fits = counted(len(left_out), "fit")
        is_out = verb(len(left_out), "is", "are")
        say(
            console,
            f"budget_s={settings.budget_s} ended before {fits}, which {is_out} left out: the same command "
            f"with {again} continues",
        )
    say(console, f"wrote {short_path(settings.run_dir / 'compare.json')}, compare.csv and compare.html")
