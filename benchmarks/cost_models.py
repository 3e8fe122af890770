"""Cost models on the committed records: every architecture and TVM's XGBoost on the same held-out tasks.

    python benchmarks/cost_models.py --checkpoints cpu cpu-draft --test-dataset data/networks
    python benchmarks/cost_models.py --dataset data/mine --models mlp xgb random --seeds 0 1 2 --minutes 120

Tables and learning curves go to results/cost_models.json with the settings they were made by; pages with
plots and the trained models stay in --run-dir. Half of --minutes is for the table of held-out tasks and the
rest for the curves: after them no training begins, and what is left out is told. Stopped or out of time, the
same command goes on where it was. What is behind `--` overrides settings of foretune-compare, as in
`-- +train.optimiser.learning_rate=1e-4`.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from foretune.configuration import from_hydra
from foretune.dataset.features import FEATURE_VERSION
from foretune.dataset.features.dataset import load_labelled_features
from foretune.dataset.hardware import probe_cpu
from foretune.errors import exits_cleanly
from foretune.models.card import git_revision
from foretune.training.compare import comparison_table, networks_table, run, train_settings
from foretune.training.compare_config import CompareConfig, contestants_of
from hydra import compose, initialize_config_module
from rich.console import Console

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "cost_models.json"
# What is trained fast comes first, so that little time gives whole tables of fewer models.
MODELS = ("random", "xgb", "xgb_task", "trees", "draft", "mlp", "transformer", "lstm")
CURVE_MODELS = ("xgb", "xgb_task", "mlp")
CURVE_TASKS = ("25", "50", "100", "200", "400", "800", "all")
CURVE_RECORDS = ("4", "8", "16", "32", "all")

load = cache(load_labelled_features)


def compared(overrides: list[str], minutes: float | None) -> dict[str, Any]:
    """The figures of one comparison without those of single tasks, which the run folder keeps."""
    limit = "null" if minutes is None else max(minutes, 0.01)
    given = ["+experiment=cost_models", *overrides, f"minutes={limit}"]
    config = from_hydra(compose("compare", given), CompareConfig)
    contestants = contestants_of(config, train_settings, FEATURE_VERSION)
    comparison = run(config, contestants, FEATURE_VERSION, load)
    for table in filter(None, (comparison_table(comparison), networks_table(comparison))):
        Console(width=160).print(table)
    figures = comparison.to_json(config.baseline)
    del figures["fits"]
    figures["config"]["contestants"] = {
        name: of for name, of in figures["config"]["contestants"].items() if name in config.models
    }
    return figures


def listed(values: list[Any] | tuple[Any, ...]) -> str:
    return f"[{','.join(map(str, values))}]"


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--dataset", type=Path, default=Path("data/cpu"))
    parser.add_argument("--test-dataset", type=Path, help="of whole networks, for a second table")
    parser.add_argument("--models", nargs="+", default=list(MODELS), help="contestants of foretune-compare")
    parser.add_argument("--checkpoints", nargs="*", default=[], help="that are compared with them")
    parser.add_argument("--baseline", default="xgb", help="what margins are stated against")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], help="of each training")
    parser.add_argument("--epochs", type=int, default=30, help="at most, of each training")
    parser.add_argument("--minutes", type=float, default=20.0, help="after which no training begins")
    parser.add_argument("--curve-models", nargs="*", default=list(CURVE_MODELS), help="none for no curves")
    parser.add_argument("--curve-tasks", nargs="*", default=list(CURVE_TASKS))
    parser.add_argument("--curve-records", nargs="*", default=list(CURVE_RECORDS))
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--run-dir", type=Path, default=Path("outputs/cost_models"))
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("overrides", nargs="*", help="settings of foretune-compare")
    return parser.parse_args()


def results(options: argparse.Namespace) -> dict[str, Any]:
    """Compares on held-out tasks, on the tasks of another dataset, and along the curves."""
    started = time.monotonic()

    def settings(folder: str, models: list[str], seeds: list[int]) -> list[str]:
        return [
            f"dataset='{options.dataset}'",
            f"run_dir='{options.run_dir / folder}'",
            f"fits_dir='{options.run_dir / 'fits'}'",
            f"models={listed(models)}",
            f"seeds={listed(seeds)}",
            f"baseline={options.baseline}",
            f"++train.trainer.max_epochs={options.epochs}",
            f"++train.trainer.threads={options.threads}",
            *options.overrides,
        ]

    found = {}
    models = [*options.checkpoints, *options.models]
    by_task = compared(settings("by_task", models, options.seeds), options.minutes / 2)
    found["by_task"] = by_task
    if options.test_dataset:
        # Those that are trained: predicting takes seconds, so that there is no limit.
        left_out = {fit.partition(",")[0] for fit in by_task["data"]["left_out"]}
        whole = settings("by_network", [name for name in models if name not in left_out], options.seeds)
        found["by_network"] = compared([*whole, f"test_dataset='{options.test_dataset}'"], None)
    if options.curve_models:
        left = options.minutes - (time.monotonic() - started) / 60
        sizes = [f"curve.tasks={listed(options.curve_tasks)}"]
        sizes += [f"curve.records_per_task={listed(options.curve_records)}"]
        curves = compared([*settings("curves", options.curve_models, options.seeds[:1]), *sizes], left)
        found["curve"] = curves["curve"]
        found["curve_left_out"] = curves["data"]["left_out"]
    return found


@exits_cleanly()
def main() -> None:
    """Writes the results with what they were made by."""
    options = parsed()
    torch.set_num_threads(options.threads)
    with initialize_config_module("foretune.conf", version_base="1.3"):
        found = results(options)
    told = {
        "settings": {name: value for name, value in vars(options).items() if name not in ("out", "run_dir")},
        "machine": probe_cpu(options.threads).name,
        "foretune": git_revision(),
        "feature_version": FEATURE_VERSION,
        **{name: version(name) for name in ("torch", "xgboost-cpu", "pytorch-lightning")},
        "python": platform.python_version(),
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(told | found, indent=1, default=str) + "\n", encoding="utf-8")
    left_out = [*found["by_task"]["data"]["left_out"], *found.get("curve_left_out", [])]
    if left_out:
        print(f"no time for {', '.join(left_out)}: the same command goes on")
    print(f"wrote {options.out}; pages are in {options.run_dir}")


if __name__ == "__main__":
    main()
