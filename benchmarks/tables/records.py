"""Tables of the measured records in `data/`, and of all results."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from ..common import ROOT, machine_name, read_json
from .declare import cells_of, table_text
from .reading import MACHINES, Result, Results, times

DATA, SHARDS = ROOT / "data", "records-*.parquet"

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
    "samplers-pgs-ebs-4": "tasks from the prior, on the trajectory of searches in rounds of four",
    "samplers-pgs-pretrained-4": "the same, on the trajectory of searches by the shipped model",
    "samplers-random-ebs-4": "tasks at random, on the trajectory of searches in rounds of four",
    "samplers-random-pretrained-4": "the same, on the trajectory of searches by the shipped model",
    "samplers-zoo-ebs-4": "tasks of the zoo, on the trajectory of searches in rounds of four",
    "samplers-zoo-pretrained-4": "the same, on the trajectory of searches by the shipped model",
    "networks": "tasks of the headline networks, to test on; not trained on",
    "networks-random": "random programs of seven networks as they are tuned, to replay; not trained on",
    "dense": "many programs of each task of TenSet's test networks, half random, half evolved; to test on",
}
"""Description of the records in each dataset, which may be missing."""


def _measured() -> dict[str, str]:
    """The datasets with records."""
    return {name: words for name, words in DATASETS.items() if any((DATA / name).glob(SHARDS))}


def records(results: Results) -> str:
    """One row per dataset, counted from its files."""
    rows, workloads = [], []
    for name, words in _measured().items():
        paths = sorted((DATA / name).glob(SHARDS))
        found = pd.concat([pd.read_parquet(path, columns=["workload_hash", "failure"]) for path in paths])
        valid = found.loc[found["failure"].isna(), "workload_hash"]
        workloads.append(valid)
        counts = [f"{valid.nunique():,}", f"{len(valid):,} of {len(found):,}"]
        rows.append([f"`data/{name}`", words, machines_in(DATA / name), *counts])
    whole = pd.concat(workloads)
    note = f"{len(whole):,} valid records of {whole.nunique():,} tasks in all, counted from the files."
    return table_text(
        pd.DataFrame(rows, columns=["dataset", "programs", "machine", "tasks", "valid records"]), note
    )


def low_peaks(results: Results) -> str:
    """Devices of the datasets whose peak is below the rate of a measured program."""
    from foretune.dataset.records.datasheet.overview import read_overview
    from foretune.dataset.records.store import RecordStore

    rows = []
    for name in _measured():
        for low in read_overview(RecordStore(DATA / name)).low_peaks:
            peak, fastest = low.hardware.peak_gflops, low.fastest_gflops
            device = f"{_machine(low.hardware)}, `{low.hardware.hardware_id}`"
            rates = [f"{rate:.3g} GFLOP/s" for rate in (peak, fastest)]
            rows.append([f"`data/{name}`", device, *rates, times(fastest / peak)])
    heads = ["dataset", "device", "peak", "fastest program", "program over peak"]
    return table_text(pd.DataFrame(rows, columns=heads), "Computed from the files.")


def _machine(hardware: Any) -> str:
    name = machine_name(asdict(hardware))
    return MACHINES.get(name, name)


def machines_in(folder: Path) -> str:
    """Names of the machines that measured a dataset."""
    names = {machine_name(read_json(path)) for path in folder.glob("hardware-*.json") if _described(path)}
    names |= {_BEFORE[path.stem] for path in folder.glob("hardware-*.json") if not _described(path)}
    return ", ".join(MACHINES.get(name, name) for name in sorted(names))


_BEFORE = {"hardware-a3b528cb67c5": "zen3", "hardware-b499a7a85bfa": "xeon-167"}
"""Machines in descriptions from before CPU families were recorded; the ids belong to later descriptions."""


def _described(path: Path) -> bool:
    description = read_json(path)
    return description["kind"] == "cuda" or bool(description.get("details", {}).get("family"))


def label_noise(results: Results) -> str:
    """A second measurement of the same records."""
    best = "first_as_prediction_of_second."
    columns = {
        **{"records": "records", "tasks": "tasks", "hours later": "median_hours_between | .1f"},
        "median difference": "median_relative_difference | .1%",
        "ninth decile": "p90_relative_difference | .0%",
        **{"Spearman": f"{best}spearman | .3f", "pairs": f"{best}pairwise_accuracy | .3f"},
        **{"top-1": f"{best}top_1 | .3f", "top-5": f"{best}top_5 | .3f", "R2": f"{best}r2 | .2f"},
    }
    frame = pd.json_normalize([read_json(DATA / "cpu" / "label_noise.json")])
    return table_text(cells_of(frame, columns), "`data/cpu/label_noise.json`")


def manifest(result: Result) -> list[dict[str, Any]]:
    """Folder of a result, and the load of the machine before it was measured."""
    return [{"path": result.path, "load": result.manifest["load"]["before"][0]}]
