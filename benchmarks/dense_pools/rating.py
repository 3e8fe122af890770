"""Cost models on the pools: shipped ones, their parts, and models of the literature on the same records."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from foretune.dataset.features.table import LabelledFeatures
from foretune.dataset.records.split import SplitConfig, split_rows
from foretune.models.architectures.ensemble import EnsembleCostModel, members_of
from foretune.models.architectures.registry import ModelConfig
from foretune.models.checkpoints.checkpoint import load_checkpoint, save_checkpoint
from foretune.training.comparison.result import ModelComparison

from ..cost_models.__main__ import OF_NETWORKS, Table, compare, ensemble
from ..cost_models.records import TableRecords, records_of, short_tasks, without_tasks
from .drawing import PoolsError

ALL = "all networks"
SCORES = ("top_1_sums", "top_5_sums", "top_1", "top_5")


def parts_of(name: str, folder: Path) -> dict[str, str]:
    """Checkpoints of the members of an ensemble, one for each kind of member: `cpu: trees` and its folder.

    Empty for a single model. They are written anew into `folder`.
    """
    whole = load_checkpoint(name)
    kinds, members = whole.card.model.kinds, iter(members_of(whole.predictor.model))
    if len(kinds) == 1:
        return {}
    shutil.rmtree(folder, ignore_errors=True)
    found = {}
    for kind in kinds:
        own = list(islice(members, kind.members))
        model = own[0] if len(own) == 1 else EnsembleCostModel(own)
        config = ModelConfig(kind.name, kind.arguments, kind.members)
        save_checkpoint(folder / kind.name, model, replace(whole.card, model=config))
        found[f"{name}: {kind.name}"] = str(folder / kind.name)
    return found


def apart_from(known: LabelledFeatures, pools: LabelledFeatures) -> TableRecords:
    """Records of the tasks whose shape the pools lack; a tenth of these tasks is for validation."""
    common = np.isin(known.shape, pools.shape) | np.isin(known.workload_hash, pools.workload_hash)
    data = known.take(np.flatnonzero(~common))
    validation = np.unique(data.workload_hash[split_rows(data, SplitConfig(test=0.0)).validation])
    split = SplitConfig(by="list", validation_tasks=validation.tolist())
    return TableRecords(data, split, 0)


def rated(
    table: Table, known: LabelledFeatures, pools: LabelledFeatures, options: argparse.Namespace
) -> dict[str, Any]:
    """Metrics of all models on the pools.

    By default, models are trained on the records of the shipped checkpoints, and tested on the tasks whose
    shape is not among them. With `options.apart`, records of the pools' shapes are left out of the training,
    so that all tasks test, and no shipped checkpoint takes part.

    Args:
        table: shipped checkpoints with the datasets that they were trained on.
        known: records of these datasets.
        pools: records of the pools.
        options: `pools`, and those of `benchmarks.cost_models`.

    Raises PoolsError if no task is left to test on.
    """
    runs_in = options.runs_in / ("apart" if options.apart else "shipped")
    short = short_tasks(pools, 2)
    tests = without_tasks(pools, short)
    names: dict[str, str] = {}
    if options.apart:
        records = apart_from(known, tests)
        if options.ensemble:
            names["ensemble"] = str(ensemble(records, options, runs_in / "ensemble"))
    else:
        records = records_of({name: load_checkpoint(name).card for name in table.checkpoints}, known)
        names = {name: name for name in table.checkpoints}
        names |= parts_of(table.checkpoints[0], runs_in / "parts")
    names |= {model: model for model in options.models}
    if np.isin(tests.shape, records.data.shape).all():
        raise PoolsError(
            f"{options.pools}: the training records have the shapes of all its tasks: give --apart to train "
            "without them, or draw the pools of other networks"
        )
    dataset = Path(table.datasets[0])
    compared = compare(
        {dataset: records.data, options.pools: tests},
        records.split,
        list(names.values()),
        options,
        runs_in,
        "pools",
        f"dataset='{dataset}'",
        f"test_dataset='{options.pools}'",
    )
    return figures(compared, names) | {"short_tasks": len(short), "apart": options.apart}


def figures(compared: ModelComparison, names: Mapping[str, str]) -> dict[str, Any]:
    """Counts, and a row for each model: scores of all networks together, and of each one.

    The scores with `sums` are TenSet's: for all tasks of the networks, the sum of weight times best latency,
    divided by the sum of weight times the best latency among the model's k highest ratings
    (`foretune.models.metrics.network_metrics`). `pairs` is the mean over tasks.
    """
    titles = {path: title for title, path in names.items()}
    rows = []
    for row in compared.rows():
        networks = {network["network"]: network for network in compared.by_network(row.name)}
        rows.append(
            {
                "model": titles[row.name],
                **{score: networks[ALL][score] for score in SCORES},
                "pairs": row.means["pairwise_accuracy"],
                "networks": {
                    network: {key: of[key] for key in (*OF_NETWORKS, "share")}
                    for network, of in networks.items()
                },
            }
        )
    tasks, records = compared.data["tasks"], compared.data["records"]
    return {
        "tasks": tasks["test"],
        "records": records["test"],
        "left_out_tasks": compared.data["common_tasks"],
        "trained_on": {"tasks": tasks["train"], "records": records["train"]},
        "models": rows,
    }
