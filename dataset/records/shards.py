"""Parquet shards of a record store: names, tables, reading and checks.

The name of a shard contains the start of its SHA-256, so that readers detect truncated and corrupted ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ...errors import UserError
from .schema import (
    COLUMN_DEFAULTS,
    KEY_COLUMNS,
    READABLE_VERSIONS,
    RECORD_SCHEMA,
    TASK_SCHEMA,
    FailureKind,
    Record,
    record_key,
)

SHARD_ROWS = 20_000
"""Largest number of rows in a shard; compaction does not rewrite a full shard."""

_HASH_DIGITS = 16


class StoreError(UserError, RuntimeError):
    """The folder is not a usable record store."""


@dataclass(frozen=True)
class BadShard:
    """Shard that could not be read, with the reason."""

    path: Path
    reason: str


@dataclass(frozen=True)
class StoredTable:
    """One of the two tables of a store."""

    name: str
    schema: pa.Schema
    key_columns: Sequence[str]
    key: Callable[..., str]
    """Key of a row from the values of `key_columns`; rows with equal keys are duplicates."""

    def keys(self, rows: pa.Table) -> list[str]:
        return list(map(self.key, *(rows[name].to_pylist() for name in self.key_columns)))


TASKS = StoredTable("tasks", TASK_SCHEMA, ("workload_hash",), str)
RECORDS = StoredTable("records", RECORD_SCHEMA, KEY_COLUMNS, record_key)


def read_shard(path: Path, wanted: Sequence[pa.Field]) -> pa.Table:
    """Columns of a shard; raises OSError if it is damaged, StoreError for an unknown version."""
    content = path.read_bytes()
    if path.stem.rsplit("-", 1)[-1] != (digest := digest_of(content)):
        raise OSError(f"its content has the hash {digest}")
    file = pq.ParquetFile(pa.BufferReader(content))
    version = (file.schema_arrow.metadata or {}).get(b"foretune_schema", b"?").decode()
    if version not in map(str, READABLE_VERSIONS):
        raise StoreError(
            f"{path}: schema version {version}, but this foretune reads "
            f"{', '.join(map(str, READABLE_VERSIONS))}; use the foretune that wrote it, or "
            "generate the dataset again"
        )
    stored = set(file.schema_arrow.names)
    rows = file.read([field.name for field in wanted if field.name in stored]).replace_schema_metadata()
    for field in wanted:
        if field.name not in stored:
            default = pa.scalar(COLUMN_DEFAULTS[field.name], field.type)
            rows = rows.append_column(field, pa.repeat(default, len(rows)))
    return rows.select([field.name for field in wanted])


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:_HASH_DIGITS]


def first_seen(keys: Iterable[str], seen: set[str]) -> pa.Array:
    """Positions of keys that are not yet in `seen`; adds them to it."""
    fresh = []
    for position, key in enumerate(keys):
        if key not in seen:
            seen.add(key)
            fresh.append(position)
    return pa.array(fresh, pa.int64())


def row_of(record: Record) -> dict:
    row = {field.name: getattr(record, field.name) for field in fields(record)}
    row["failure"] = record.failure.value if record.failure else None
    return row


def record_of(row: dict) -> Record:
    row["run_secs"] = tuple(row["run_secs"])
    row["failure"] = FailureKind(row["failure"]) if row["failure"] else None
    return Record(**row)
