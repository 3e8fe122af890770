"""Merging of datasets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from .network_weights import merged_networks, read_networks, write_networks
from .schema import RECORD_SCHEMA
from .store import RecordStore, StoreError


@dataclass
class MergeCounts:
    """Number of added rows; `known` counts records that the target or an earlier source already had."""

    tasks: int = 0
    records: int = 0
    devices: int = 0
    known: int = 0


def merge_datasets(
    sources: Sequence[RecordStore], target: RecordStore, *, skip_damaged: bool = False
) -> MergeCounts:
    """Add the tasks, records, devices and networks of `sources` to `target`, which need not exist.

    Of several rows with the same key, the first is kept, and rows of `target` come first. An error adds
    nothing. A kill at the last moment may leave a part of the result, which the same merge completes. The
    sources do not change. A damaged shard raises StoreError, unless `skip_damaged` leaves it out; a damaged
    shard of `target` is then set aside.
    """
    for source in sources:
        source.require()
    damaged = [bad for store in (*sources, target) for bad in store.check_shards()]
    if damaged and not skip_damaged:
        raise StoreError(
            f"{damaged[0].path}: damaged ({damaged[0].reason}); merge with skip_damaged=true to leave it out"
        )
    counts = MergeCounts()
    with target.writing():
        target.set_aside_bad_shards()
        keys = set(target.columns("key")["key"].to_pylist())
        tasks = {row.workload_hash for row in target.tasks()}
        devices = set(target.hardware())
        networks = read_networks(target.folder)
        merged = merged_networks(
            [networks, *(read_networks(source.folder) for source in sources)], target.folder
        )
        with target.transaction():
            if merged != networks:
                write_networks(target, merged)
            for source in sources:
                # Records are read before their tasks, because a source that is being written gets a task
                # before its records.
                records = source.columns(*RECORD_SCHEMA.names, "key")
                new = records.filter(
                    pa.array([key not in keys for key in records["key"].to_pylist()], pa.bool_())
                )
                keys.update(new["key"].to_pylist())
                target.append_columns(new)
                new_tasks = [row for row in source.tasks() if row.workload_hash not in tasks]
                tasks.update(row.workload_hash for row in new_tasks)
                target.append_tasks(new_tasks)
                new_devices = {
                    name: found for name, found in source.hardware().items() if name not in devices
                }
                devices |= new_devices.keys()
                for hardware in new_devices.values():
                    target.put_hardware(hardware)
                counts.tasks += len(new_tasks)
                counts.records += len(new)
                counts.devices += len(new_devices)
                counts.known += len(records) - len(new)
        target.compact()
    return counts
