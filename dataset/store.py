"""The record store: a folder of append-only Parquet shards that survives a kill at any moment.

A shard is written beside its place, flushed to disk and renamed, and carries the start of its own SHA-256 in
its name. So a reader sees a whole shard or none, and a truncated or bit-flipped one is told from a good one.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import UserError
from .hardware import Hardware
from .records import READABLE_VERSIONS, RECORD_SCHEMA, TASK_SCHEMA, FailureKind, Record, TaskRow

_HASH_DIGITS = 16
_SET_ASIDE = "set-aside"


class StoreError(UserError, RuntimeError):
    """The folder is no usable record store."""


class StoreLockedError(StoreError):
    """Another run writes to this dataset."""


@dataclass(frozen=True)
class BadShard:
    """A shard that was not read, and why."""

    path: Path
    reason: str


class RecordStore:
    """Tasks, records and hardware descriptions of one dataset.

    Reading needs no lock. Writing happens inside `with store.writing():`, which one process at a time holds.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.bad_shards: list[BadShard] = []
        """Shards left out by the latest read."""

    # -- reading

    def require(self) -> RecordStore:
        """Raises StoreError unless the folder holds a dataset."""
        if not self._shards("tasks"):
            raise StoreError(
                f"dataset={self.folder}: no dataset there (no tasks-*.parquet); make one with "
                "foretune-generate or name another folder"
            )
        return self

    def tasks(self) -> list[TaskRow]:
        """Every task once, in the order of writing."""
        rows = (TaskRow(**row) for row in self._read("tasks", TASK_SCHEMA))
        return list({row.workload_hash: row for row in rows}.values())

    def records(self) -> list[Record]:
        """Every record once, in the order of writing; sets `bad_shards`."""
        found: dict[str, Record] = {}
        for row in self._read("records", RECORD_SCHEMA):
            row["run_secs"] = tuple(row["run_secs"])
            row["failure"] = FailureKind(row["failure"]) if row["failure"] else None
            record = Record(**row)
            found.setdefault(record.key, record)
        return list(found.values())

    def hardware(self) -> dict[str, Hardware]:
        """Hardware descriptions by id."""
        described = {}
        for path in sorted(self.folder.glob("hardware-*.json")):
            hardware = Hardware.from_json(path.read_text())
            described[hardware.hardware_id] = hardware
        return described

    def content_hash(self) -> str:
        """32 hex digits over the names of all shards, which carry the hashes of their contents."""
        names = [path.name for kind in ("tasks", "records") for path in self._shards(kind)]
        return hashlib.sha256("\n".join(names).encode()).hexdigest()[:32]

    # -- writing

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Holds the write lock of the dataset; raises StoreLockedError when another process has it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / ".lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise StoreLockedError(
                    f"dataset={self.folder}: another run writes to it; wait for it, stop it, or name "
                    "another folder"
                ) from error
            for leftover in self.folder.glob("*.partial"):
                leftover.unlink()
            yield

    def append_tasks(self, rows: Sequence[TaskRow]) -> None:
        self._append("tasks", TASK_SCHEMA, [vars(row) for row in rows])

    def append_records(self, records: Sequence[Record]) -> None:
        self._append("records", RECORD_SCHEMA, [_record_row(record) for record in records])

    def put_hardware(self, hardware: Hardware) -> None:
        path = self.folder / f"hardware-{hardware.hardware_id}.json"
        self._write_atomically(path, hardware.to_json().encode())

    def set_aside_bad_shards(self) -> list[BadShard]:
        """Moves every damaged shard into `set-aside/`, so that what it held is measured again."""
        moved = []
        for kind, schema in (("tasks", TASK_SCHEMA), ("records", RECORD_SCHEMA)):
            list(self._read(kind, schema))
            for bad in self.bad_shards:
                (self.folder / _SET_ASIDE).mkdir(exist_ok=True)
                bad.path.rename(self.folder / _SET_ASIDE / bad.path.name)
                moved.append(bad)
        return moved

    def compact(self) -> None:
        """Merges the shards of each kind into one; a kill in between leaves doubles, which reading drops."""
        tasks, task_shards = self.tasks(), self._shards("tasks")
        if self.bad_shards:
            raise StoreError(f"{self.bad_shards[0].path}: damaged; run again so that it is set aside first")
        records, record_shards = self.records(), self._shards("records")
        if self.bad_shards:
            raise StoreError(f"{self.bad_shards[0].path}: damaged; run again so that it is set aside first")
        if len(task_shards) > 1:
            self.append_tasks(tasks)
            _unlink(task_shards)
        if len(record_shards) > 1:
            self.append_records(sorted(records, key=lambda record: record.workload_hash))
            _unlink(record_shards)

    # -- files

    def _shards(self, kind: str) -> list[Path]:
        return sorted(self.folder.glob(f"{kind}-*.parquet"))

    def _read(self, kind: str, schema: pa.Schema) -> Iterator[dict]:
        self.bad_shards = []
        for path in self._shards(kind):
            try:
                content = path.read_bytes()
                digest = hashlib.sha256(content).hexdigest()[:_HASH_DIGITS]
                if path.stem.rsplit("-", 1)[-1] != digest:
                    raise StoreError(f"its content hashes to {digest}")
                table = pq.read_table(pa.BufferReader(content))
            except (OSError, pa.ArrowException, StoreError) as error:
                self.bad_shards.append(BadShard(path, str(error)))
                continue
            version = (table.schema.metadata or {}).get(b"foretune_schema", b"?").decode()
            if version not in map(str, READABLE_VERSIONS):
                raise StoreError(
                    f"{path}: schema version {version}, this foretune reads "
                    f"{' and '.join(map(str, READABLE_VERSIONS))}; use the foretune that wrote it, or "
                    "generate the dataset again"
                )
            known = [field.name for field in schema if field.name in table.column_names]
            yield from table.select(known).to_pylist()

    def _append(self, kind: str, schema: pa.Schema, rows: list[dict]) -> None:
        if not rows:
            return
        sink = pa.BufferOutputStream()
        pq.write_table(
            pa.Table.from_pylist(rows, schema=schema), sink, compression="zstd", compression_level=9
        )
        content = sink.getvalue().to_pybytes()
        digest = hashlib.sha256(content).hexdigest()[:_HASH_DIGITS]
        taken = [int(path.stem.split("-")[1]) for path in self._shards(kind)]
        number = max(taken, default=-1) + 1
        self._write_atomically(self.folder / f"{kind}-{number:06d}-{digest}.parquet", content)

    def _write_atomically(self, path: Path, content: bytes) -> None:
        partial = path.with_suffix(path.suffix + ".partial")
        try:
            with partial.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            partial.rename(path)
        except OSError as error:
            partial.unlink(missing_ok=True)
            raise StoreError(
                f"{path}: could not be written ({error.strerror}); free some space or name another folder, "
                "then run the same command again: what was written before is kept"
            ) from error


def _record_row(record: Record) -> dict:
    row = {field.name: getattr(record, field.name) for field in fields(record)}
    row["run_secs"] = list(record.run_secs)
    row["failure"] = record.failure.value if record.failure else None
    return row


def _unlink(paths: Iterable[Path]) -> None:
    for path in paths:
        path.unlink()
