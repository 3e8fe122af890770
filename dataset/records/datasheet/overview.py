"""Contents of a dataset as two tables for counts and plots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import pyarrow as pa

from ...generation.runs import GenerationRun, read_runs
from ...hardware import Hardware
from ..low_peaks import LowPeak, dtype_of, low_peaks
from ..network_weights import NetworkWeights, read_networks
from ..store import BadShard, RecordStore

_COLUMNS = (
    *("workload_hash", "run_secs", "failure", "cut_short", "disturbed", "simulated", "sampler", "round"),
    *("hardware_id", "target", "tvm_version", "timestamp", "probe_ratio", "moved_bytes"),
)


@dataclass(frozen=True)
class Overview:
    """Contents of a dataset without its programs.

    `records` has one row per record: the columns of RECORD_SCHEMA that plots need, `latency_s` (inf for a
    failure), `spread` (median of the repeats over their minimum, minus 1; NaN for fewer than two), `score`
    (best latency of the task on the device over this one) and `gflops` (rate).

    `tasks` has one row per task, indexed by `workload_hash`: `name`, `operator`, `source`, `dtype`, `flops`,
    and of its records `records`, `valid`, `best_s` (inf without a valid one) and `gflops` (of the best).
    """

    name: str
    content_hash: str
    tasks: pd.DataFrame
    records: pd.DataFrame
    hardware: Mapping[str, Hardware]
    bad_shards: list[BadShard]
    networks: NetworkWeights = field(default_factory=dict)
    """Call counts of the tasks of whole networks, if the dataset has them."""
    runs: list[GenerationRun] = field(default_factory=list)
    """Runs that generated records here, if the dataset lists them."""

    @property
    def valid(self) -> pd.DataFrame:
        """Records with a latency."""
        return self.records[self.records.failure.isna()]

    @property
    def low_peaks(self) -> list[LowPeak]:
        """Devices whose peak is too low or doubtful."""
        measured = self.valid[~self.valid.simulated]
        measured = measured[measured.workload_hash.map(self.tasks.dtype) == "float32"]
        return low_peaks(self.hardware, measured.groupby("hardware_id").gflops.max().to_dict())


def read_overview(store: RecordStore) -> Overview:
    """Read the contents of a dataset; takes about a second for 60,000 records. Raises StoreError."""
    tasks = pd.DataFrame(
        [
            (row.workload_hash, row.name, row.operator, row.source, dtype_of(row.settings), row.flops)
            for row in store.require().tasks()
        ],
        columns=["workload_hash", "name", "operator", "source", "dtype", "flops"],
    ).set_index("workload_hash")
    bad_shards = list(store.bad_shards)
    records = _records(store.columns(*_COLUMNS))
    bad_shards += store.bad_shards
    records["operator"] = records.workload_hash.map(tasks.operator)
    place = [records.workload_hash, records.hardware_id, records.target]
    records["score"] = records.latency_s.groupby(place).transform("min") / records.latency_s
    records["gflops"] = records.workload_hash.map(tasks.flops).astype(float) / records.latency_s / 1e9
    by_task = records.groupby("workload_hash")
    tasks["records"] = by_task.size().reindex(tasks.index, fill_value=0)
    tasks["valid"] = tasks.records - by_task.failure.count().reindex(tasks.index, fill_value=0)
    tasks["best_s"] = by_task.latency_s.min().reindex(tasks.index, fill_value=np.inf)
    tasks["gflops"] = tasks.flops / tasks.best_s / 1e9
    return Overview(
        name=store.folder.resolve().name,
        content_hash=store.content_hash(),
        tasks=tasks,
        records=records,
        hardware=store.hardware(),
        bad_shards=bad_shards,
        networks=read_networks(store.folder),
        runs=read_runs(store.folder),
    )


def _records(columns: pa.Table) -> pd.DataFrame:
    repeats = columns["run_secs"].combine_chunks()
    owner = np.repeat(np.arange(len(columns)), np.asarray(repeats.value_lengths(), dtype=np.int64))
    by_record = pd.Series(np.asarray(repeats.flatten(), dtype=float)).groupby(owner)
    records = columns.drop_columns("run_secs").to_pandas()
    latency = by_record.min()
    records["latency_s"] = latency.reindex(records.index, fill_value=np.inf)
    spread = by_record.median() / latency - 1.0
    records["spread"] = spread[by_record.size() > 1].reindex(records.index)
    return records
