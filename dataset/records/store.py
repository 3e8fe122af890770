"""Record store: a folder of append-only Parquet shards that survives a kill at any moment.

A shard is written to a temporary name, flushed to disk and renamed. Its name contains the start of its
SHA-256. Readers therefore see whole shards only, and detect truncated or corrupted ones.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ...compiler.hardware import DISTURBED, FROM_PROGRAM
from ...compiler.host.interruption import interrupts_deferred
from ..hardware import Hardware
from .schema import (
    RECORD_SCHEMA,
    TASK_SCHEMA,
    Record,
    TaskRow,
)
from .shards import (
    RECORDS,
    SHARD_ROWS,
    TASKS,
    BadShard,
    StoredTable,
    StoreError,
    digest_of,
    first_seen,
    read_shard,
    record_of,
    row_of,
)

_SET_ASIDE = "set-aside"


class StoreLockedError(StoreError):
    """Another run is writing to this dataset."""


class RecordStore:
    """Tasks, records and hardware descriptions of one dataset.

    Reading needs no lock. Writing requires `with store.writing():`, held by one process at a time.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.bad_shards: list[BadShard] = []
        """Damaged shards that the last read left out."""
        self._staged: list[Path] | None = None

    # -- reading

    def require(self) -> RecordStore:
        """Raise StoreError unless the folder holds a dataset."""
        if not self._shards(TASKS):
            raise StoreError(
                f"dataset={self.folder} has no dataset (no tasks-*.parquet); create one with foretune "
                "generate, or use another folder"
            )
        return self

    def require_intact(self) -> RecordStore:
        """Read all shards; raises StoreError for a damaged one, for callers that need every record."""
        for bad in self.check_shards():
            raise StoreError(
                f"{bad.path}: damaged ({bad.reason}); restore it from a copy, or set it aside: "
                f"foretune dataset merge {self.folder} into={self.folder} skip_damaged=true"
            )
        return self

    def tasks(self) -> list[TaskRow]:
        """Distinct tasks in the order of writing; sets `bad_shards`."""
        return [TaskRow(**row) for row in self._rows(TASKS, TASKS.schema.names).to_pylist()]

    def records(self, workload_hashes: Iterable[str] | None = None) -> list[Record]:
        """Distinct records in the order of writing, of all tasks or of some; sets `bad_shards`."""
        rows = self.columns(*RECORD_SCHEMA.names)
        if workload_hashes is not None:
            rows = rows.filter(pc.is_in(rows["workload_hash"], pa.array(workload_hashes, pa.string())))
        return [record_of(row) for batch in rows.to_batches() for row in batch.to_pylist()]

    def columns(self, *names: str) -> pa.Table:
        """Columns of the distinct records in the order of writing; sets `bad_shards`.

        Only the requested columns are kept in memory. `key`, the key of a record, counts as a column.
        """
        return self._rows(RECORDS, names)

    def count_stored_rows(self) -> int:
        """Number of records in the readable shards, including duplicates."""
        return sum(len(rows) for _, rows in self._read(RECORDS, ["round"]))

    def hardware(self) -> dict[str, Hardware]:
        """Hardware descriptions by id; raises StoreError for a damaged one."""
        described = {}
        for path in sorted(self.folder.glob("hardware-*.json")):
            try:
                hardware = Hardware.from_json(path.read_text(encoding="utf-8"))
            except (OSError, ValueError) as error:
                raise StoreError(f"{path}: {error}; restore it from a copy of the dataset") from error
            if path.stem != f"hardware-{hardware.hardware_id}":
                raise StoreError(
                    f"{path}: has another hardware_id, {hardware.hardware_id}; restore it from a copy of "
                    "the dataset"
                )
            described[hardware.hardware_id] = hardware
        return described

    def hardware_of(self, hardware_ids: Iterable[str]) -> dict[str, Hardware]:
        """Descriptions of the devices of records, by id; raises StoreError for a missing description."""
        described = self.hardware()
        wanted = sorted(set(hardware_ids))
        if missing := [name for name in wanted if name not in described]:
            raise StoreError(
                f"{self.folder}/hardware-{missing[0]}.json: is missing, and describes the device of some "
                "records; copy it from the dataset they are from, or merge that one: foretune dataset merge "
                f"{self.folder} OTHER into={self.folder}"
            )
        return {name: described[name] for name in wanted}

    def content_hash(self) -> str:
        """32 hex digits over the devices and the names of all shards, which contain content hashes."""
        names = [path.name for table in (TASKS, RECORDS) for path in self._shards(table)]
        devices = [hardware.to_json() for hardware in self.hardware().values()]
        return hashlib.sha256("\n".join([*names, *devices]).encode()).hexdigest()[:32]

    def check_shards(self) -> list[BadShard]:
        """Read all shards; returns the damaged ones."""
        damaged = []
        for table in (TASKS, RECORDS):
            for _ in self._read(table, table.schema.names):
                pass
            damaged += self.bad_shards
        return damaged

    # -- writing

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the write lock of the dataset; raises StoreLockedError if another process holds it."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = (self.folder / ".lock").open("w")
        except OSError as error:
            raise StoreError(
                f"dataset={self.folder}: cannot be written ({error.strerror}); use another folder"
            ) from error
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise StoreLockedError(
                    f"dataset={self.folder}: another run is writing to it; wait for it, stop it, or use "
                    "another folder"
                ) from error
            _unlink(self.folder.glob("*.partial"))
            yield

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make all writes of the block visible at its end, or none of them if the block fails.

        A kill during the few renames at the end leaves a valid dataset with a part of the writes: records
        come last, after their tasks and devices. Ctrl-C waits for the renames.
        """
        self._staged = []
        try:
            yield
            staged = dict.fromkeys(self._staged)
            with interrupts_deferred():
                for partial in sorted(staged, key=lambda path: path.name.startswith(f"{RECORDS.name}-")):
                    partial.rename(partial.with_suffix(""))
        except BaseException:
            _unlink(self._staged)
            raise
        finally:
            self._staged = None

    def append_tasks(self, rows: Sequence[TaskRow]) -> None:
        self._append(TASKS, pa.Table.from_pylist([vars(row) for row in rows], schema=TASK_SCHEMA))

    def append_records(self, records: Sequence[Record]) -> None:
        self.append_columns(pa.Table.from_pylist(list(map(row_of, records)), schema=RECORD_SCHEMA))

    def append_columns(self, records: pa.Table) -> None:
        """Append records given as a table with all columns of RECORD_SCHEMA, such as from `columns`."""
        self._append(RECORDS, records.select(RECORD_SCHEMA.names))

    def put_hardware(self, hardware: Hardware) -> None:
        """Write a device's description, unless a stored one has equally high peaks.

        The higher of measured and stored peaks is kept, because a device that also does other work does not
        reach its peaks. They count as disturbed (`DISTURBED`) if no measurement was undisturbed. A peak that
        a program gave (`FROM_PROGRAM`) keeps this mark until a measurement gives a higher one. Raises
        StoreError if a stored description is damaged.
        """
        known = self.hardware().get(hardware.hardware_id)
        if known is not None:
            peak_gflops = max(hardware.peak_gflops, known.peak_gflops)
            bandwidth_gbs = max(hardware.bandwidth_gbs, known.bandwidth_gbs)
            details = dict(hardware.details)
            if not known.details.get(DISTURBED):
                details.pop(DISTURBED, None)
            if known.peak_gflops > hardware.peak_gflops and known.details.get(FROM_PROGRAM):
                details[FROM_PROGRAM] = True
            kept = replace(hardware, peak_gflops=peak_gflops, bandwidth_gbs=bandwidth_gbs, details=details)
            was_disturbed = known.details.get(DISTURBED), details.get(DISTURBED)
            peaks = known.peak_gflops, known.bandwidth_gbs
            if (peak_gflops, bandwidth_gbs) == peaks and was_disturbed[0] == was_disturbed[1]:
                return
            hardware = kept
        path = self.folder / f"hardware-{hardware.hardware_id}.json"
        self._write_atomically(path, hardware.to_json().encode())

    def put_file(self, name: str, content: bytes) -> None:
        """Write a file in the store's folder atomically; raises StoreError."""
        self._write_atomically(self.folder / name, content)

    def set_aside_bad_shards(self) -> list[BadShard]:
        """Move damaged shards into `set-aside/`, so that their records are measured again."""
        damaged = self.check_shards()
        for bad in damaged:
            (self.folder / _SET_ASIDE).mkdir(exist_ok=True)
            bad.path.rename(self.folder / _SET_ASIDE / bad.path.name)
        return damaged

    def compact(self) -> None:
        """Merge small shards, sorted by task, into shards of SHARD_ROWS rows; full ones are kept.

        A kill in between leaves duplicates, which reads and the next compaction drop. Raises StoreError for a
        damaged shard.
        """
        self.require_intact()
        for table in (TASKS, RECORDS):
            self._compact(table)

    # -- rows

    def _rows(self, table: StoredTable, columns: Sequence[str]) -> pa.Table:
        """Columns of the distinct rows, where `key` counts as a column."""
        stored = [name for name in columns if name != "key"]
        parts, seen = [], set[str]()
        for _, rows in self._read(table, {*stored, *table.key_columns}):
            keys = table.keys(rows)
            fresh = first_seen(keys, seen)
            rows = rows.append_column("key", pa.array(keys, pa.string())).select(list(columns))
            parts.append(rows if len(fresh) == len(rows) else rows.take(fresh))
        empty = table.schema.append(pa.field("key", pa.string())).empty_table()
        return pa.concat_tables([empty.select(list(columns)).replace_schema_metadata(), *parts])

    def _compact(self, table: StoredTable) -> None:
        merged: list[Path] = []
        parts, seen, doubles = [], set[str](), 0
        for path, rows in self._read(table, table.schema.names):
            fresh = first_seen(table.keys(rows), seen)
            if len(fresh) != SHARD_ROWS:
                merged.append(path)
                parts.append(rows.take(fresh))
                doubles += len(rows) - len(fresh)
        if len(merged) > 1 or doubles:
            with self.transaction():
                self._append(table, pa.concat_tables(parts).sort_by("workload_hash"))
            _unlink(merged)

    # -- files

    def _shards(self, table: StoredTable) -> list[Path]:
        return sorted(self.folder.glob(f"{table.name}-*.parquet"))

    def _read(self, table: StoredTable, columns: Iterable[str]) -> Iterator[tuple[Path, pa.Table]]:
        """Yield each readable shard with some columns of its rows; sets `bad_shards`."""
        self.bad_shards = []
        wanted = [field for field in table.schema if field.name in set(columns)]
        done: set[Path] = set()
        while fresh := [path for path in self._shards(table) if path not in done]:
            for path in fresh:
                done.add(path)
                try:
                    rows = read_shard(path, wanted)
                except FileNotFoundError:
                    pass  # compacted by another process; the next iteration finds the merged shard
                except (OSError, pa.ArrowException) as error:
                    self.bad_shards.append(BadShard(path, str(error)))
                else:
                    yield path, rows

    def _append(self, table: StoredTable, rows: pa.Table) -> None:
        """Write rows as shards of at most SHARD_ROWS rows."""
        names = (path.name for path in self.folder.glob(f"{table.name}-*.parquet*"))
        number = max((int(name.split("-")[1]) for name in names), default=-1) + 1
        rows = rows.replace_schema_metadata(table.schema.metadata)
        for offset in range(0, len(rows), SHARD_ROWS):
            sink = pa.BufferOutputStream()
            pq.write_table(rows.slice(offset, SHARD_ROWS), sink, compression="zstd", compression_level=9)
            content = sink.getvalue().to_pybytes()
            path = self.folder / f"{table.name}-{number:06d}-{digest_of(content)}.parquet"
            self._write_atomically(path, content)
            number += 1

    def _write_atomically(self, path: Path, content: bytes) -> None:
        partial = path.with_suffix(path.suffix + ".partial")
        try:
            with partial.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            if self._staged is None:
                partial.rename(path)
            else:
                self._staged.append(partial)
        except OSError as error:
            with suppress(OSError):  # a read-only file system refuses this for a missing file too
                partial.unlink(missing_ok=True)
            raise StoreError(
                f"{path}: could not be written ({error.strerror}); free some space or use another folder, "
                "then run the same command again: earlier writes are kept"
            ) from error


def _unlink(paths: Iterable[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)
