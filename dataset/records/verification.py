"""Integrity checks of a dataset that reading does not include."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Collection, Iterator

import numpy as np
import pyarrow as pa

from ...wording import counted, shell_command, verb
from .network_weights import NetworksFileError, read_networks
from .schema import TaskRow
from .store import RecordStore, StoreError


def problems(store: RecordStore, replays: int = 0) -> Iterator[str]:
    """Yield the problems of a dataset as text; replays `replays` randomly drawn records with TVM."""
    for bad in store.check_shards():
        yield f"{bad.path}: damaged, {bad.reason}; foretune generate sets it aside and measures it again"
    tasks = {row.workload_hash: row for row in store.tasks()}
    records = store.columns("key", "workload_hash", "hardware_id", "run_secs", "failure", "moved_bytes")
    yield from _not_described("task", records["workload_hash"], tasks)
    try:
        yield from _not_described("device", records["hardware_id"], store.hardware())
    except StoreError as error:
        yield str(error)
    try:
        read_networks(store.folder)
    except NetworksFileError as error:
        yield str(error)
    yield from _wrong_numbers(records)
    if doubles := store.count_stored_rows() - len(records):
        merge = shell_command("foretune", "dataset", "merge", store.folder, f"into={store.folder}")
        yield (
            f"{counted(doubles, 'record')} {verb(doubles, 'is a duplicate', 'are duplicates')}, "
            "which reading drops; "
            f"{merge} removes {verb(doubles, 'it', 'them')}"
        )
    yield from _not_replaying(store, tasks, replays)


def _not_described(what: str, column: pa.ChunkedArray, known: Collection[str]) -> Iterator[str]:
    for name, count in zip(*(part.to_pylist() for part in column.value_counts().flatten()), strict=True):
        if name not in known:
            yield (
                f"{what} {name}: has {counted(count, 'record')} but no description; merge the "
                "dataset that has one"
            )


def _wrong_numbers(records: pa.Table) -> Iterator[str]:
    repeats = records["run_secs"].combine_chunks()
    lengths = np.asarray(repeats.value_lengths(), dtype=np.int64)
    seconds = np.asarray(repeats.flatten())
    owners = np.repeat(np.arange(len(records)), lengths)
    failed = np.asarray(records["failure"].is_valid())
    moved = np.asarray(records["moved_bytes"].fill_null(1.0))
    invalid_latency = ~(np.isfinite(seconds) & (seconds > 0))
    invalid_bytes = ~(np.isfinite(moved) & (moved > 0))
    for text, wrong in (
        ("a latency that is not finite and positive", np.unique(owners[invalid_latency])),
        ("both latencies and a failure, or neither", np.flatnonzero((lengths > 0) == failed)),
        ("moved_bytes that are not finite and positive", np.flatnonzero(invalid_bytes)),
    ):
        if len(wrong):
            yield (
                f"{counted(len(wrong), 'record')} {verb(len(wrong), 'has', 'have')} {text}, such as "
                f"{records['key'][int(wrong[0])]}"
            )


def _not_replaying(store: RecordStore, tasks: dict[str, TaskRow], count: int) -> Iterator[str]:
    if not count:
        return
    import tvm

    from ...compiler.replay import replay
    from ...compiler.tvm_compat import make_tune_context, parse_target, workload_hash

    records = store.columns("key", "workload_hash", "target", "trace")
    drawn = random.Random(0).sample(range(len(records)), min(count, len(records)))
    groups = defaultdict(list)
    for record in records.take(pa.array(drawn, pa.int64())).to_pylist():
        if record["workload_hash"] in tasks:
            groups[record["workload_hash"], record["target"]].append(record)
    for (name, target), group in groups.items():
        mod = tvm.ir.load_json(tasks[name].tir)
        if workload_hash(mod) != name:
            yield f"task {name}: its module has the hash {workload_hash(mod)}; another TVM version wrote it"
        context = make_tune_context(mod, parse_target(target), seed=0, name=tasks[name].name)
        for record in group:
            if replay(context, record["trace"]) is None:
                yield f"record {record['key']} of {tasks[name].name}: its trace does not replay"
