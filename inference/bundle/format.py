"""Format of a bundle: its manifest, and the JSON lines with tasks and records of a MetaSchedule database.

This module does not import TVM, so that a bundle can be shown in an instant.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from ...dataset.hardware import Hardware
from ...dataset.records.database_lines import (
    RECORD_FILE,
    WORKLOAD_FILE,
    StoredRecord,
    parsed_record,
    parsed_workload,
)
from ...errors import first_line
from ...json_fields import read_fields
from ..database.task_note import TaskNote
from .archive import BundleError, damaged, read_archive, write_archive

SCHEMA_VERSION = 2
"""Version of the layout, incremented when an older foretune cannot read a bundle or would misread it."""

READ_VERSIONS = (1, SCHEMA_VERSION)
"""Versions that this foretune reads; bundles of version 1 have no `Manifest.notes`."""

MANIFEST_FILE = "manifest.json"
MEMBERS = (MANIFEST_FILE, WORKLOAD_FILE, RECORD_FILE)
_WRITTEN = "a bundle that foretune bundle export wrote"

_Part = TypeVar("_Part")


@dataclass(frozen=True)
class BundleTask:
    """One task of a bundle, for human readers; an import uses only the records."""

    workload_hash: str
    name: str
    operator: str
    settings: dict[str, Any]
    """Settings of the operator, see `Task.settings`."""
    records: int
    """Number of schedules."""
    latency_s: float
    """Latency of the fastest schedule in seconds."""
    rounds: int
    """Completed search rounds of the task; 0 for a schedule without a recorded search by foretune."""
    rounds_of: int
    """Rounds of a complete search; equal to `rounds` if the search is complete."""


@dataclass(frozen=True)
class Manifest:
    """Content of manifest.json."""

    schema_version: int
    content_sha256: str
    """SHA-256 over the rest of the manifest and the other members; see `content_hash`."""
    made_at: str
    """ISO 8601, with the time zone."""
    network: str
    """Network whose tasks were exported; "" stands for all tasks of the database."""
    target: dict[str, Any]
    """TVM target."""
    hardware: Hardware
    """Device that measured the schedules."""
    versions: dict[str, str]
    """Versions of foretune and tvm."""
    tasks: list[BundleTask]
    """Tasks with schedules."""
    notes: list[TaskNote] = field(default_factory=list)
    """What runs decided about tasks, with and without a schedule."""

    @property
    def decided(self) -> list[TaskNote]:
        """Tasks that the network runs without a schedule, each with the reason."""
        tuned = {task.workload_hash for task in self.tasks}
        return [note for note in self.notes if note.decided and note.workload_hash not in tuned]

    def to_json(self) -> str:
        """Text of manifest.json."""
        return json.dumps(asdict(self), indent=1, allow_nan=False) + "\n"


@dataclass(frozen=True, eq=False)
class Bundle:
    """Schedules of one target on one device, each with its task and latency."""

    manifest: Manifest
    workloads: Sequence[str]
    """One JSON line per task, as in MetaSchedule's database_workload.json."""
    records: Sequence[StoredRecord]
    """Schedules, whose `workload` is an index into `workloads`."""

    @property
    def target_json(self) -> str:
        """Target in the form that dataset records use; see `target_to_json`."""
        return json.dumps(self.manifest.target, sort_keys=True)


def write_bundle(path: Path, bundle: Bundle) -> Bundle:
    """Writes a bundle whole or not at all, and returns it with its content hash; raises BundleError."""
    workloads = _as_lines(bundle.workloads)
    records = _as_lines([record.line(record.workload) for record in bundle.records])
    sha256 = content_hash(bundle.manifest, workloads, records)
    bundle = replace(bundle, manifest=replace(bundle.manifest, content_sha256=sha256))
    manifest = bundle.manifest.to_json().encode()
    write_archive(path, dict(zip(MEMBERS, (manifest, workloads, records), strict=True)))
    return bundle


def read_bundle(path: str | Path) -> Bundle:
    """Reads and checks a bundle without changing anything.

    Raises BundleError with the name of the member or field and the next step if the file is truncated,
    damaged, too large, of another schema, or not a bundle.
    """
    path = Path(path)
    members = read_archive(path, MEMBERS)
    manifest = _manifest(path, members[MANIFEST_FILE])
    workloads, records = members[WORKLOAD_FILE], members[RECORD_FILE]
    if content_hash(manifest, workloads, records) != manifest.content_sha256:
        raise damaged(path, f"its content has another hash than content_sha256 in {MANIFEST_FILE} says")
    lines = workloads.decode(errors="replace").splitlines()
    _parsed(path, WORKLOAD_FILE, lines, parsed_workload)
    return Bundle(
        manifest,
        lines,
        _parsed(
            path,
            RECORD_FILE,
            records.decode(errors="replace").splitlines(),
            lambda line: parsed_record(line, len(lines)),
        ),
    )


def content_hash(manifest: Manifest, workloads: bytes, records: bytes) -> str:
    """SHA-256 over the manifest without `content_sha256`, the workloads and the records."""
    values = asdict(replace(manifest, content_sha256=""))
    if manifest.schema_version == 1:
        del values["notes"]
    rest = json.dumps(values, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256()
    for part in (rest.encode(), workloads, records):
        digest.update(f"{len(part)}:".encode() + part)
    return digest.hexdigest()


def _as_lines(lines: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _parsed(path: Path, member: str, lines: Sequence[str], parse: Callable[[str], _Part]) -> list[_Part]:
    """Values that `parse` returns for the lines; raises BundleError with the number of the faulty line."""
    found = []
    for number, line in enumerate(lines, 1):
        try:
            found.append(parse(line))
        except (ValueError, RecursionError) as error:
            raise BundleError(
                f"bundle={path}: {member}, line {number}: {first_line(error)}; use {_WRITTEN}"
            ) from error
    return found


def _manifest(path: Path, content: bytes) -> Manifest:
    """The manifest after type checks of every field; raises BundleError with the name of the faulty field."""
    try:
        values = json.loads(content)
        version = values.get("schema_version") if isinstance(values, dict) else None
        if version not in READ_VERSIONS:
            raise BundleError(
                f"bundle={path}: {MANIFEST_FILE}: schema_version={version!r:.40}, but this foretune reads "
                f"{' and '.join(map(str, READ_VERSIONS))}; use the foretune that wrote it, or export it "
                "again with this one"
            )
        if version == 1 and "notes" in values:
            raise ValueError("'notes' is unknown in a bundle of version 1")
        return read_fields(Manifest, {"notes": [], **values})
    except BundleError:
        raise
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise BundleError(f"bundle={path}: {MANIFEST_FILE}: {first_line(error)}; use {_WRITTEN}") from error
