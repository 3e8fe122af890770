"""Cost models on the committed records: every architecture and TVM's XGBoost on the same held-out tasks.

    python benchmarks/cost_models.py
    python benchmarks/cost_models.py --dataset data/mine --networks resnet18 bert_base --seeds 0

Tables and learning curves go to results/cost_models.json; pages with plots and the trained models stay in
--run-dir. Stopped, the same command goes on where it was. What is behind `--` overrides settings of
foretune-compare, as in `-- ++train.trainer.max_epochs=5`.
"""

from __future__ import annotations

import argparse
import json
import platform
from importlib.metadata import version
from pathlib import Path

import torch
from foretune.configuration import from_hydra
from foretune.dataset.features import FEATURE_VERSION
from foretune.dataset.features.dataset import load_labelled_features
from foretune.dataset.hardware import probe_cpu
from foretune.errors import exits_cleanly
from foretune.models.card import git_revision
from foretune.training.compare import comparison_table, run, train_settings
from foretune.training.compare_config import CompareConfig, contestants_of
from hydra import compose, initialize_config_module
from rich.console import Console

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "cost_models.json"
CURVES = ["models=[transformer,xgb,xgb_task]", "baseline=xgb", "seeds=[0]"]
TASKS = "curve.tasks=[25,50,100,200,400,800,all]"
RECORDS = "curve.records_per_task=[4,8,16,32,all]"


def compared(overrides, data):
    """The figures of one comparison without those of single tasks, which the run folder keeps."""
    config = from_hydra(compose("compare", ["+experiment=cost_models", *overrides]), CompareConfig)
    contestants = contestants_of(config, train_settings, FEATURE_VERSION)
    comparison = run(config, contestants, FEATURE_VERSION, lambda _: data)
    Console(width=160).print(comparison_table(comparison))
    figures = comparison.to_json(config.baseline)
    for fit in figures.pop("fits"):
        print(f"{fit['name']:12} seed {fit['seed']}: {fit['facts']}")
    figures["config"]["contestants"] = {
        name: of for name, of in figures["config"]["contestants"].items() if name in config.models
    }
    return figures


@exits_cleanly()
def main() -> None:
    """Compares by tasks and, where there are any, by networks; then draws the learning curves."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--dataset", type=Path, default=HERE.parent / "data" / "cpu")
    parser.add_argument("--run-dir", type=Path, default=Path("outputs/cost_models"))
    parser.add_argument("--networks", nargs="*", default=[], help="networks to hold out, in a second table")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--no-curves", action="store_true", help="leave the learning curves out")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("overrides", nargs="*", help="settings of foretune-compare")
    arguments = parser.parse_args()

    torch.set_num_threads(arguments.threads)
    data = load_labelled_features(arguments.dataset)
    shared = [f"dataset='{arguments.dataset}'", *arguments.overrides]
    seeds = f"seeds={arguments.seeds}".replace(" ", "")
    result = {
        "machine": probe_cpu(arguments.threads).name,
        "threads": arguments.threads,
        "foretune": git_revision(),
        "feature_version": FEATURE_VERSION,
        **{name: version(name) for name in ("torch", "xgboost-cpu", "pytorch-lightning")},
        "python": platform.python_version(),
    }
    with initialize_config_module("foretune.conf", version_base="1.3"):
        by_task = f"run_dir='{arguments.run_dir / 'by_task'}'"
        result["by_task"] = compared([*shared, by_task, seeds], data)
        if arguments.networks:
            held_out = ["split.by=network", f"split.networks=[{','.join(arguments.networks)}]"]
            folder = f"run_dir='{arguments.run_dir / 'by_network'}'"
            result["by_network"] = compared([*shared, folder, seeds, *held_out], data)
        if not arguments.no_curves:
            # The fits on all of the data are those of the table.
            folder = f"run_dir='{arguments.run_dir / 'curves'}'"
            fits = f"fits_dir='{arguments.run_dir / 'by_task' / 'fits'}'"
            curves = compared([*shared, folder, fits, *CURVES, TASKS, RECORDS], data)
            result["curve"] = curves["curve"]
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"wrote {arguments.out}; pages are in {arguments.run_dir}")


if __name__ == "__main__":
    main()
