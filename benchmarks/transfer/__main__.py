"""Few-shot transfer of a cost model to another device (Fasor, section 4.2), with baselines.

    python -m benchmarks.transfer --dataset data/cpu
    python -m benchmarks.transfer --dataset data/cpu --target ID --train model=transformer --seeds 1
    python -m benchmarks.transfer --dataset data/cpu-targets --source cpu data/cpu

Each device of the dataset is in turn the new one, and all others together are the source; or the source is a
checkpoint, given with its training dataset. A third of the new device's tasks, whose shapes the source does
not have, form the test; from the rest, the pool, k tasks are chosen. Compared on the test
tasks: the unchanged source model (none), fine-tuned on k tasks chosen by Fasor's clusters, by k-means and at
random, trained from scratch on Fasor's k tasks, and, as the goal, trained and fine-tuned on the whole pool.
The seed decides random choices, batches and initial weights; the source model and the split are the same for
all.

Cells run seed by seed, with the devices in turn, and none begins after --minutes. The same command resumes
after a stop or a time-out. Finished cells are kept in `--work` with a page of curves; `cells_left` in the
result counts the others. `--train` and `--finetune` take Hydra overrides of foretune train and foretune
finetune, and `--epochs` bounds the trainings of both.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import time
from pathlib import Path
from typing import Any

import numpy as np
from foretune.dataset.features import FEATURE_VERSION
from foretune.dataset.features.dataset import load_labelled_features
from foretune.dataset.records.store import RecordStore
from foretune.training.train import data_sha256
from foretune.training.transfer.recorded_transfer import of_device
from hydra import initialize_config_module

from ..common import argument_parser, read_json, start, this_machine, write_json, write_result
from ..cost_models.records import merged
from .page import write_page
from .study import METRICS, Runner, Source, Study, pending, summarised, tasks_of

MIN_TASKS = 30
"""Tasks below which a device is not a default target: too few would remain for the test."""

log = logging.getLogger("transfer")


def parsed() -> argparse.Namespace:
    parser = argument_parser(__name__)
    parser.add_argument("--dataset", type=Path, nargs="+", required=True, help="several count as one")
    parser.add_argument(
        "--min-tasks", type=int, default=MIN_TASKS, help="of a device that is a target (%(default)s)"
    )
    parser.add_argument(
        "--source", nargs=2, metavar=("CHECKPOINT", "DATASET"), help="in place of the other devices"
    )
    parser.add_argument("--target", action="append", help="id of a new device; may be given again")
    parser.add_argument("--k", type=int, nargs="+", default=[5, 10, 20, 50])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--test-share", type=float, default=1 / 3)
    parser.add_argument("--split-seed", type=int, default=0)
    parser.add_argument("--records-per-task", type=int)
    parser.add_argument("--features", nargs="+", default=["task"], help="what tasks are compared by")
    parser.add_argument("--epochs", type=int, help="at most, of every training; else as --train says")
    parser.add_argument("--minutes", type=float, default=20.0, help="after which no cell begins")
    parser.add_argument("--train", nargs="+", default=list(TRAIN))
    parser.add_argument("--finetune", nargs="+", default=list(FINETUNE))
    parser.add_argument(
        "--work", type=Path, default=Path("outputs/benchmarks/transfer"), help="(%(default)s)"
    )
    parser.add_argument("--variant", default="", help="suffix of the result's folder, such as cpus")
    return parser.parse_args()


TRAIN = (
    *("model=mlp", "target.name=log_score", "data.keep_slow=true", "data.batch_size=256", "loss.rank=0.1"),
    *("trainer.max_epochs=30", "trainer.patience=8", "trainer.threads=1", "trainer.progress_bar=false"),
)
FINETUNE = ("trainer.threads=1", "trainer.progress_bar=false")


def compact(results: dict[str, Any]) -> dict[str, Any]:
    """Rows of the tables: means over seeds of each kind and k."""
    targets = {
        target: {
            **{name: value for name, value in entry.items() if name not in ("cells", "seconds", "summary")},
            "summary": [
                {
                    **{name: row[name] for name in ("kind", "k", "seeds")},
                    **{m: row[m]["mean"] for m in METRICS},
                }
                for row in entry.get("summary", [])
            ],
        }
        for target, entry in results["targets"].items()
    }
    return {"settings": results["settings"], "cells_left": results["cells_left"], "targets": targets}


def main() -> None:
    options, begun = parsed(), start()
    deadline = time.monotonic() + 60 * options.minutes
    if options.epochs:
        options.train.append(f"trainer.max_epochs={options.epochs}")
        options.finetune.append(f"trainer.max_epochs={options.epochs}")
    logging.basicConfig(level=logging.WARNING)
    log.setLevel(logging.INFO)
    for name in ("pytorch_lightning", "lightning.pytorch"):  # which print lines at each training
        logging.getLogger(name).setLevel(logging.WARNING)
    dataset = merged(list(map(str, options.dataset)), options.work / "records")
    data = load_labelled_features(dataset)
    ids = np.unique(data.hardware_id)
    names = {id_: f"{device.name} ({id_})" for id_, device in RecordStore(dataset).hardware().items()}
    targets = options.target or [
        str(id_)
        for id_ in ids
        if tasks_of(of_device(data, id_)) >= options.min_tasks and (len(ids) > 1 or options.source)
    ]
    if not targets:
        raise SystemExit(f"{dataset}: no device with {options.min_tasks} tasks beside another device")
    source = Source.of(*options.source) if options.source else None
    settings = {
        "source": options.source,
        "data_sha256": data_sha256(data),
        "feature_version": FEATURE_VERSION,
        **{name: getattr(options, name) for name in ("test_share", "split_seed", "records_per_task")},
        **{name: getattr(options, name) for name in ("features", "train", "finetune")},
    }
    fingerprint = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]
    cells = options.work / fingerprint / "cells.json"
    results = read_json(cells) if cells.exists() else {"settings": settings, "targets": {}}
    with initialize_config_module("foretune.conf", version_base="1.3"):
        runners = {}
        for target in targets:
            study = Study.of(data, target, options.test_share, options.split_seed, source)
            entry = results["targets"].setdefault(target, {"cells": {}, "seconds": {}})
            entry |= {"name": names.get(target, target), **study.describe()}
            runners[target] = Runner(study, options, options.work / fingerprint / target)
        todo = pending(runners, results["targets"])
        results["cells_left"] = len(todo)
        for number, (target, name, run) in enumerate(todo, start=1):
            if time.monotonic() > deadline:
                break
            entry = results["targets"][target]
            began = time.monotonic()
            metrics = run().summary()
            entry["cells"][name] = {metric: float(metrics[metric]) for metric in METRICS}
            entry["seconds"][name] = round(time.monotonic() - began, 1)
            entry["summary"] = summarised(entry["cells"])
            results["cells_left"] -= 1
            write_json(cells, results)
            log.info(
                "%3d of %d  %s %-20s %s", number, len(todo), target, name,
                "  ".join(f"{metric} {value:.3f}" for metric, value in entry["cells"][name].items()),
            )  # fmt: skip
    write_json(cells, results)
    write_page(results, options.work / fingerprint / "transfer.html")
    if results["cells_left"]:
        print(f"no time for {results['cells_left']} cells: the same command goes on")
    write_result(
        "transfer", compact(results), begun, this_machine(), variant=options.variant, results=options.out
    )
    print(f"wrote {options.work / fingerprint / 'transfer.html'}")


if __name__ == "__main__":
    main()
