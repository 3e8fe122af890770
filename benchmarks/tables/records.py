"""Tables of the measured records in `data/`."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as parquet

from ..common import ROOT, machine_name, read_json
from .reading import MACHINES, Results, markdown

DATASETS = {
    "cpu": "drawn from the prior, on the trajectory of searches",
    "cpu-proposed": "proposed by searches of tasks of `data/cpu`, a quarter at random",
    "cpu-last": "new tasks, most of them channels last with packed weights; three tenths at random",
    "cpu-zen3": "new tasks, near a quarter of them depthwise; three tenths at random",
    "cpu-zen5": "new tasks, three tenths of them depthwise; inputs computed in three places",
    "cpu-zen4": "new tasks, on the trajectory of searches",
    "cpu-xeon": "new tasks, on the trajectory of searches, a fifth at random; not trained on yet",
    "cpu-targets": "x86-64-v2 and -v3 code and one core, to transfer to; not trained on",
    "cpu-bfloat16": "tasks in bfloat16 on the trajectory of searches; not trained on",
    "cpu-int8": "the same in int8",
    "gpu": "random programs, drawn before the GPU was at hand",
    "gpu-networks": "random programs of ResNet-18, BERT-base and a part of MobileNetV2, to test on",
    "gpu-tuned": "programs that a search of ResNet-18 measured; not trained on",
    "samplers-pgs-ebs": "tasks from the prior, on the trajectory of searches (One-Shot Tuner, Table 4)",
    "samplers-pgs-random": "the same, random programs",
    "samplers-random-ebs": "tasks at random, on the trajectory of searches",
    "samplers-random-random": "the same, random programs",
    "samplers-zoo-ebs": "tasks of the zoo, on the trajectory of searches",
    "samplers-zoo-random": "the same, random programs",
    "networks": "tasks of the headline networks, to test on; not trained on",
    "networks-random": "random programs of seven networks as they are tuned, to replay; not trained on",
}
"""What the records of each dataset are."""


def records(results: Results) -> str:
    """One row a dataset, counted from its files."""
    rows, valid_in_all, tasks_in_all = [], 0, set()
    for name, words in DATASETS.items():
        found = [
            row
            for path in sorted((ROOT / "data" / name).glob("records-*.parquet"))
            for row in parquet.read_table(path, columns=["workload_hash", "failure"]).to_pylist()
        ]
        valid = [row["workload_hash"] for row in found if row["failure"] is None]
        valid_in_all += len(valid)
        tasks_in_all |= set(valid)
        machines = machines_in(ROOT / "data" / name)
        counts = [f"{len(set(valid)):,}", f"{len(valid):,} of {len(found):,}"]
        rows.append([f"`data/{name}`", words, machines, *counts])
    heads = ["dataset", "programs", "machine", "tasks", "valid records"]
    note = f"{valid_in_all:,} valid records of {len(tasks_in_all):,} tasks in all."
    return markdown(heads, rows, note)


def machines_in(folder: Path) -> str:
    """Names of the machines that measured a dataset."""
    names = {machine_name(read_json(path)) for path in folder.glob("hardware-*.json") if _described(path)}
    names |= {_BEFORE[path.stem] for path in folder.glob("hardware-*.json") if not _described(path)}
    return ", ".join(MACHINES.get(name, name) for name in sorted(names))


_BEFORE = {"hardware-a3b528cb67c5": "zen3", "hardware-b499a7a85bfa": "xeon-167"}
"""Machines of descriptions from before these told the family of a CPU; the ids are those of later ones."""


def _described(path: Path) -> bool:
    description = read_json(path)
    return description["kind"] == "cuda" or bool(description.get("details", {}).get("family"))


def label_noise(results: Results) -> str:
    """A second measurement of the same records."""
    noise = read_json(ROOT / "data" / "cpu" / "label_noise.json")
    best = noise["first_as_prediction_of_second"]
    cells = [
        f"{noise['records']:,} of {noise['tasks']} tasks, {noise['median_hours_between']:.1f} h later",
        f"{noise['median_relative_difference']:.1%}",
        f"{noise['p90_relative_difference']:.0%}",
        *(f"{best[key]:.3f}" for key in ("spearman", "pairwise_accuracy", "top_1", "top_5")),
        f"{best['r2']:.2f}",
    ]
    heads = ["records of `data/cpu` measured again", "median difference", "ninth decile"]
    heads += ["Spearman", "pairs", "top-1", "top-5", "R2"]
    note = "The first measurement as a prediction of the second: the most that a model can reach."
    return markdown(heads, [cells], note)
