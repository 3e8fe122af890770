"""Shipped cost models compared with XGBoost and random order, on tasks that none of them has seen.

    python -m benchmarks.cost_models
    python -m benchmarks.cost_models --tables cpu --models xgb trees mlp random --epochs 15
    python -m benchmarks.cost_models --tables cpu --models xgb_task trees random \
        --curve-models xgb_task trees --curve-tasks 100 200 400 all --curve-records 8 16 all

Checkpoints that were trained on the same records share a table. Every other model of the table is trained on
these very records, and all are tested on the same tasks: the test tasks of the checkpoints' cards, and the
tasks of whole networks. Test tasks whose shape (`foretune.dataset.records.task_shapes`) is among the training
or validation tasks are left out and counted.

Fits are kept in `outputs/benchmarks/cost_models`, so a stopped benchmark resumes. Words after `--` override
settings of `foretune compare`.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from foretune.configuration import from_hydra
from foretune.dataset.features import FEATURE_VERSION
from foretune.dataset.features.dataset import load_labelled_features
from foretune.dataset.records.split import SplitConfig
from foretune.errors import exits_cleanly
from foretune.models.checkpoints.checkpoint import load_checkpoint
from foretune.terminal import print_table
from foretune.training.combine import combine
from foretune.training.compare import comparison_table, networks_table, run, train_settings
from foretune.training.comparison.config import CompareConfig, contestants_of
from foretune.training.comparison.data import Load
from foretune.training.comparison.result import ModelComparison
from foretune.training.fitting.config import TrainConfig
from foretune.training.train import train_model
from hydra import compose, initialize_config_module
from rich.console import Console

from ..common import argument_parser, start, this_machine, write_result
from ..trained_on import CPUS
from .records import TableRecords, merged, records_apart, records_of, short_tasks, without_tasks

TRAINING = (
    *(
        "target.name=log_score",
        "data.batch_size=256",
        "data.keep_slow=true",
        "loss.rank=0.1",
        "loss.sigma=10",
    ),
    *("loss.offset=0.2", "trainer.progress_bar=false"),
)
"""Settings of the shipped members."""

SEEDLESS = ("trees",)
"""Models that are trained once, independent of the seeds."""


def ensemble(records: TableRecords, options: argparse.Namespace, folder: Path) -> Path:
    """Checkpoint of the models in `options.ensemble` for each seed; models from a stopped call are kept."""
    found = folder / "combined"
    if found.exists():
        return found
    members = []
    for model in options.ensemble:
        for seed in options.seeds[:1] if model in SEEDLESS else options.seeds:
            members.append(_trained(records, options, folder / f"{model}-{seed}", model, seed))
    combine([load_checkpoint(path, FEATURE_VERSION) for path in members], records.data, found)
    return found


def _trained(records: TableRecords, options: argparse.Namespace, folder: Path, model: str, seed: int) -> Path:
    done = folder / "checkpoint"
    if done.exists():
        return done
    own = [word.removeprefix("++").removeprefix("+") for word in options.overrides]
    own = [word.removeprefix("train.") for word in own if word.startswith("train.")]
    if model in SEEDLESS:
        own = [
            word
            for word in own
            if not word.startswith(("trainer.accelerator", "trainer.precision", "model."))
        ]
    resume = any(folder.rglob("last.ckpt"))
    words = [
        *(f"model={model}", "dataset=unused", f"run_dir={folder}", f"seed={seed}", f"resume={resume}"),
        *(f"trainer.max_epochs={options.epochs}", f"trainer.threads={options.threads}", *TRAINING, *own),
    ]
    with initialize_config_module("foretune.conf", version_base="1.3"):
        config = replace(from_hydra(compose("train", words), TrainConfig), split=records.split)
    train_model(config, records.data, FEATURE_VERSION)
    return done


@dataclass(frozen=True)
class Table:
    """Checkpoints that were trained on the same records, and the datasets with these records."""

    checkpoints: tuple[str, ...]
    datasets: tuple[str, ...]
    networks: str | None = "data/networks"
    """Dataset of whole networks to test on; None if the held-out tasks are those of networks."""


def _folders(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"data/{name}" for name in names)


SHIPPED = (
    Table(("cpu", "cpu-draft", "cpu-latency"), _folders(CPUS)),
    Table(("cuda", "cuda-draft", "cuda-latency"), ("data/gpu", "data/gpu-networks"), networks=None),
)
CHOSEN_ON = {
    "xgb_task": "Settings of XGBoost with task, draft and hardware features were chosen on test tasks of an "
    "earlier split of `data/cpu`.",
    "cpu": "That `cpu` has trees fitted to scores and no MLPs, and the weight of the error that a task's "
    "programs share, were decided with the three networks in sight.",
}
"""Choices that were made with knowledge of test tasks, by model."""

MODELS = ("xgb", "xgb_task", "random")
METRICS = (
    *("spearman", "pairwise_accuracy", "top_1", "top_5", "r2", "log_r2"),
    *("top_1_sums", "top_5_sums", "peak_10", "rmse"),
)
OF_NETWORKS = ("tasks", "top_1", "top_5", "top_1_sums", "top_5_sums")
MARGINS = ("spearman", "top_1")
OF_CURVE = ("axis", "size", "name", "tasks", "records", "spearman", "pairwise_accuracy", "top_1")

_load = cache(load_labelled_features)


def measure(table: Table, options: argparse.Namespace, load: Load = _load) -> dict[str, Any]:
    """Compares the models of a table on its held-out tasks, on whole networks and along the curves."""
    runs_in = options.runs_in / (Path(table.checkpoints[0]).name if table.checkpoints else "given")
    networks = options.test_dataset or table.networks
    known = load(merged(table.datasets, runs_in / "records"))
    if table.checkpoints:
        cards = {name: load_checkpoint(name).card for name in table.checkpoints}
        records = records_of(cards, known)
    else:
        apart = load(Path(networks)).shape if networks else ()
        records = records_apart(known, apart, options.most_tasks, options.least_programs)
    dataset = Path(table.datasets[0])
    matter = {dataset: records.data}

    def compared(folder: str, models: Sequence[str], *overrides: str) -> ModelComparison:
        return compare(matter, records.split, models, options, runs_in, folder, *overrides)

    models = [*table.checkpoints, *options.models]
    if options.ensemble:
        models.insert(0, str(ensemble(records, options, runs_in / "ensemble")))
    of_tasks = figures(compared("by_task", models, f"dataset='{dataset}'"), options.baseline)
    found = {
        "title": title(table, of_tasks, records.left_out_tasks),
        "checkpoints": table.checkpoints,
        "datasets": table.datasets,
        "baseline": options.baseline,
        "by_task": {**of_tasks, "left_out_tasks": records.left_out_tasks},
    }
    if networks:
        whole_networks = load(Path(networks))
        short = short_tasks(whole_networks, options.least_programs) if options.datasets else set()
        matter[Path(networks)] = without_tasks(whole_networks, short)
        whole = compared("by_network", models, f"dataset='{dataset}'", f"test_dataset='{networks}'")
        found["test_dataset"] = networks
        found["by_network"] = {
            **figures(whole, options.baseline),
            "left_out_tasks": whole.data["common_tasks"],
            "short_tasks": len(short),
        }
    if options.curve_models:
        sizes = [f"curve.tasks={_listed(options.curve_tasks)}"]
        sizes += [f"curve.records_per_task={_listed(options.curve_records)}"]
        curves = compared("curve", options.curve_models, f"dataset='{dataset}'", *sizes).to_json("")
        found["curve"] = [{name: point[name] for name in OF_CURVE} for point in curves["curve"]]
    return found


def training_device(overrides: Sequence[str]) -> str:
    """Name of the GPU that the overrides train on, or "" for a CPU."""
    if not any("accelerator=gpu" in word for word in overrides):
        return ""
    return str(torch.cuda.get_device_name())


def title(table: Table, of_tasks: Mapping[str, Any], left_out_tasks: int) -> str:
    """Sentences on the training of a table's models, and on the tasks left out of the test."""
    tasks, records = (of_tasks[name]["train"] for name in ("tasks", "records"))
    folders = ", ".join(f"`{folder}`" for folder in table.datasets)
    shipped = "; the shipped ones leave out the few that failed" if table.checkpoints else ""
    sentences = [
        f"All models are trained on the same {records:,} records of {tasks:,} tasks ({folders}){shipped}."
    ]
    if left_out_tasks:
        sentences.append(
            f"{left_out_tasks} test tasks are left out: another layout of their shape is among the training "
            "or validation tasks."
        )
    sentences += [note for name, note in CHOSEN_ON.items() if name in of_tasks["models"]]
    return " ".join(sentences)


def compare(
    matter: Mapping[Path, Any],
    split: SplitConfig,
    models: Sequence[str],
    options: argparse.Namespace,
    runs_in: Path,
    folder: str,
    *overrides: str,
) -> ModelComparison:
    """One comparison of `foretune compare` on records in memory; prints its tables."""
    given = [
        "experiment=cost_models",
        f"run_dir='{runs_in / folder}'",
        f"fits_dir='{runs_in / 'fits'}'",
        f"models={_listed(models)}",
        f"seeds={_listed(options.seeds)}",
        f"baseline={options.baseline}",
        f"++train.trainer.max_epochs={options.epochs}",
        f"++train.trainer.threads={options.threads}",
        *overrides,
        *options.overrides,
    ]
    with initialize_config_module("foretune.conf", version_base="1.3"):
        config = replace(from_hydra(compose("compare", given), CompareConfig), split=split)
        contestants = contestants_of(config, train_settings, FEATURE_VERSION)
    comparison = run(config, contestants, FEATURE_VERSION, matter.__getitem__)
    for table in (comparison_table(comparison), networks_table(comparison)):
        print_table(table, Console(width=160))
    return comparison


def figures(comparison: ModelComparison, baseline: str) -> dict[str, Any]:
    """Counts of tasks and records, and the figures of each model."""
    margins = comparison.margins(baseline)
    models = {}
    for row in comparison.rows():
        networks = {network["network"]: network for network in comparison.by_network(row.name)}
        of_row: dict[str, Any] = {name: row.means[name] for name in METRICS}
        if row.name in margins:
            of_row["ahead_of_baseline"] = {
                name: [margin.ahead, margin.low, margin.high]
                for name, margin in margins[row.name].items()
                if name in MARGINS
            }
        if networks:
            of_row["networks"] = {
                name: {key: of[key] for key in OF_NETWORKS} for name, of in networks.items()
            }
        models["ensemble" if "/ensemble/" in row.name else row.name] = of_row | row.facts
    counts = {name: comparison.data[name] for name in ("tasks", "records", "hardware_ids")}
    return {**counts, "models": models}


def _listed(values: Sequence[Any]) -> str:
    return f"[{','.join(map(str, values))}]"


def arguments_of(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser(__name__)
    add = parser.add_argument
    names = [table.checkpoints[0] for table in SHIPPED]
    add("--tables", nargs="+", choices=names, default=names, help="by their first checkpoint (all)")
    add("--datasets", nargs="+", help="train on these records in place of a shipped checkpoint's")
    add("--most-tasks", type=int, help="of the datasets, by chance (all)")
    add("--least-programs", type=int, default=2, help="of a task to test on, with --datasets (%(default)s)")
    add("--ensemble", nargs="+", default=[], metavar="MODEL", help="combine these, trained with each seed")
    add("--models", nargs="+", default=list(MODELS), help="of foretune compare (%(default)s)")
    add("--baseline", default="xgb", help="model that margins are stated against (%(default)s)")
    add(
        "--test-dataset",
        help="of whole networks (data/networks; none for GPUs, whose test tasks are of such)",
    )
    add("--seeds", type=int, nargs="+", default=[0], help="of each training (%(default)s)")
    add("--epochs", type=int, default=30, help="at most, of each training (%(default)s)")
    add("--threads", type=int, default=1, help="of torch (%(default)s)")
    add("--curve-models", nargs="*", default=[], help="for learning curves (none)")
    add("--curve-tasks", nargs="*", default=["100", "200", "400", "all"], help="(%(default)s)")
    add("--curve-records", nargs="*", default=["8", "16", "all"], help="records a task (%(default)s)")
    add("--runs-in", type=Path, default=Path("outputs/benchmarks/cost_models"), help="(%(default)s)")
    add("--variant", default="", help="suffix of the result's folder")
    add("overrides", nargs="*", metavar="OVERRIDE", help="for foretune compare, after a --")
    options = parser.parse_args(words)
    if options.curve_models and len(options.tables) > 1:
        parser.error(f"--curve-models needs one of the tables: add --tables {options.tables[0]}, or another")
    return options


@exits_cleanly()
def main() -> None:
    options = arguments_of()
    begun = start()
    torch.set_num_threads(options.threads)
    if options.datasets:
        tables = [measure(Table((), tuple(options.datasets), networks=None), options)]
    else:
        tables = [measure(table, options) for table in SHIPPED if table.checkpoints[0] in options.tables]
    result: dict[str, Any] = {"tables": tables}
    if device := training_device(options.overrides):
        result["trained_on"] = device
    if options.curve_models:
        result["curve"] = tables[0].pop("curve")
    write_result(
        "cost_models",
        result,
        begun,
        this_machine(),
        variant=options.variant,
        notes="Models are trained and tested on stored records: only seconds depend on the machine.",
        results=options.out,
    )
    print(f"pages are in {options.runs_in}")


if __name__ == "__main__":
    main()
