"""Format of a bundle: its manifest, and JSON lines with tasks, schedules and GPU templates.

This module does not import TVM, so that a bundle can be shown in an instant.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from ...dataset.hardware import Hardware
from ...dataset.records.database_lines import (
    RECORD_FILE,
    WORKLOAD_FILE,
    StoredRecord,
    parsed_record,
    parsed_schedule,
    parsed_workload,
)
from ...errors import first_line
from ...json_fields import read_fields
from ..database.fastest_template import parsed_template
from ..database.folder import TEMPLATES_FILE
from ..database.stored_kernel_times import KERNELS_FILE, parsed_kernel_time
from ..database.task_note import TaskNote
from .archive import BundleError, damaged, read_archive, write_archive

SCHEMA_VERSION = 4
"""Version of the layout, incremented when an older foretune cannot read a bundle or would misread it."""

READ_VERSIONS = (1, 2, 3, SCHEMA_VERSION)
"""Versions that this foretune reads."""

MANIFEST_FILE = "manifest.json"
PREDICTED_FILE = "predicted_record.json"
"""Member with a JSON line for each predicted schedule, as in RECORD_FILE but without a latency."""

MEMBERS = (MANIFEST_FILE, WORKLOAD_FILE, RECORD_FILE)
"""Members of every bundle."""

LATER_MEMBERS = {PREDICTED_FILE: 3, TEMPLATES_FILE: 3, KERNELS_FILE: 4}
"""Version that introduced a further member, in the order of the content's hash."""

_SINCE = {"notes": 2, "predicted_notes": 3}
"""Version that introduced a field of the manifest."""

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
    """Number of measured schedules."""
    latency_s: float | None
    """Latency of the fastest schedule in seconds; None if the bundle has only a predicted schedule."""
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
    predicted_notes: list[TaskNote] = field(default_factory=list)
    """What runs without a measurement decided about tasks."""

    @property
    def decided(self) -> list[TaskNote]:
        """Tasks that the network runs without a schedule, each with the reason."""
        tuned = {task.workload_hash for task in self.tasks if task.records}
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
    """Measured schedules, whose `workload` is an index into `workloads`."""
    predicted: Sequence[StoredRecord] = ()
    """Schedules that a cost model predicted, one per task; they have no latency."""
    templates: Sequence[str] = ()
    """GPU templates as lines of TEMPLATES_FILE."""
    kernels: Sequence[str] = ()
    """Times of kernels for dynamic shapes as lines of KERNELS_FILE."""

    @property
    def target_json(self) -> str:
        """Target in the form that dataset records use; see `target_to_json`."""
        return json.dumps(self.manifest.target, sort_keys=True)


def write_bundle(path: Path, bundle: Bundle) -> Bundle:
    """Writes a bundle whole or not at all, and returns it with its content hash; raises BundleError."""
    records, predicted = (
        [record.line(record.workload) for record in found] for found in (bundle.records, bundle.predicted)
    )
    lines = {WORKLOAD_FILE: bundle.workloads, RECORD_FILE: records}
    later = {PREDICTED_FILE: predicted, TEMPLATES_FILE: bundle.templates, KERNELS_FILE: bundle.kernels}
    lines |= {name: of for name, of in later.items() if bundle.manifest.schema_version >= LATER_MEMBERS[name]}
    members = {name: "".join(f"{line}\n" for line in of).encode() for name, of in lines.items()}
    sha256 = content_hash(bundle.manifest, members)
    bundle = replace(bundle, manifest=replace(bundle.manifest, content_sha256=sha256))
    write_archive(path, {MANIFEST_FILE: bundle.manifest.to_json().encode(), **members})
    return bundle


def read_bundle(path: str | Path) -> Bundle:
    """Reads and checks a bundle without changing anything.

    Raises BundleError with the name of the member or field and the next step if the file is truncated,
    damaged, too large, of another schema, or not a bundle.
    """
    path = Path(path)
    members = read_archive(path, MEMBERS, LATER_MEMBERS)
    manifest = _manifest(path, members.pop(MANIFEST_FILE), members)
    if content_hash(manifest, members) != manifest.content_sha256:
        raise damaged(path, f"its content has another hash than content_sha256 in {MANIFEST_FILE} says")
    lines = {name: content.decode(errors="replace").splitlines() for name, content in members.items()}
    workloads = lines[WORKLOAD_FILE]
    count = len(workloads)
    _parsed(path, WORKLOAD_FILE, lines, parsed_workload)
    _parsed(path, TEMPLATES_FILE, lines, parsed_template)
    _parsed(path, KERNELS_FILE, lines, parsed_kernel_time)
    return Bundle(
        manifest,
        workloads,
        _parsed(path, RECORD_FILE, lines, lambda line: parsed_record(line, count)),
        _parsed(path, PREDICTED_FILE, lines, lambda line: parsed_schedule(line, count)),
        lines.get(TEMPLATES_FILE, []),
        lines.get(KERNELS_FILE, []),
    )


def content_hash(manifest: Manifest, members: Mapping[str, bytes]) -> str:
    """SHA-256 over the manifest without `content_sha256` and the other members in their order."""
    values = asdict(replace(manifest, content_sha256=""))
    for name, since in _SINCE.items():
        if manifest.schema_version < since:
            del values[name]
    rest = json.dumps(values, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256()
    later = [members[name] for name in LATER_MEMBERS if name in members]
    for part in (rest.encode(), members[WORKLOAD_FILE], members[RECORD_FILE], *later):
        digest.update(f"{len(part)}:".encode() + part)
    return digest.hexdigest()


def _parsed(
    path: Path, member: str, lines: Mapping[str, Sequence[str]], parse: Callable[[str], _Part]
) -> list[_Part]:
    """Values that `parse` returns for the lines of a member; raises BundleError with the number of the
    faulty line."""
    found = []
    for number, line in enumerate(lines.get(member, ()), 1):
        try:
            found.append(parse(line))
        except (ValueError, RecursionError) as error:
            raise BundleError(
                f"bundle={path}: {member}, line {number}: {first_line(error)}; use {_WRITTEN}"
            ) from error
    return found


def _manifest(path: Path, content: bytes, members: Collection[str]) -> Manifest:
    """The manifest after type checks of every field, for the other members of its bundle.

    Raises BundleError with the name of the faulty field or member.
    """
    try:
        values = json.loads(content)
        version = values.get("schema_version") if isinstance(values, dict) else None
        if version not in READ_VERSIONS:
            raise BundleError(
                f"bundle={path}: {MANIFEST_FILE}: schema_version={version!r:.40}, but this foretune reads "
                f"{', '.join(map(str, READ_VERSIONS))}; use the foretune that wrote it, or export it "
                "again with this one"
            )
        for name, since in _SINCE.items():
            if version < since and name in values:
                raise ValueError(f"{name!r} is unknown in a bundle of version {version}")
        for name, since in LATER_MEMBERS.items():
            if (name in members) != (version >= since):
                has = "has a" if name in members else "lacks the"
                raise ValueError(f"a bundle of version {version} that {has} member {name!r}")
        earlier: dict[str, Any] = {name: [] for name, since in _SINCE.items() if version < since}
        return read_fields(Manifest, {**earlier, **values})
    except BundleError:
        raise
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise BundleError(f"bundle={path}: {MANIFEST_FILE}: {first_line(error)}; use {_WRITTEN}") from error
