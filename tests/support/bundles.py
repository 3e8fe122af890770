"""Bundles and database folders whose tasks and traces are made up, for tests that need no TVM."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from foretune.dataset.records.database_lines import (
    RECORD_FILE,
    WORKLOAD_FILE,
    StoredRecord,
    parsed_record,
    parsed_workload,
)
from foretune.inference.bundle.format import SCHEMA_VERSION, Bundle, BundleTask, Manifest
from foretune.inference.database.folder import append_rounds, whole_lines

from .fake_executor import HARDWARE

TARGET = {"kind": "llvm", "num-cores": 2}

Latencies = Mapping[int, Mapping[str, float]]
"""Latencies in seconds by number of the task and trace."""


def name_of(task: int) -> str:
    """Workload hash of a made-up task."""
    return f"{task:016x}"


def lines_of(latencies: Latencies) -> tuple[list[str], list[StoredRecord]]:
    """Workloads and records of a database."""
    workloads = [json.dumps([str(task), "e30="]) for task in latencies]
    records = [
        StoredRecord(number, latency_s, [[[[trace, [], [], []]], []], [latency_s], TARGET, []])
        for number, traces in enumerate(latencies.values())
        for trace, latency_s in traces.items()
    ]
    return workloads, records


def bundle_of(latencies: Latencies, rounds: Mapping[int, tuple[int, int]] | None = None, **fields) -> Bundle:
    """A bundle; `fields` are of its manifest."""
    workloads, records = lines_of(latencies)
    tasks = [
        BundleTask(
            workload_hash=name_of(task),
            name=f"dense_{task}",
            operator="dense",
            settings={"rows": task},
            records=len(traces),
            latency_s=min(traces.values()),
            rounds=(rounds or {}).get(task, (0, 0))[0],
            rounds_of=(rounds or {}).get(task, (0, 0))[1],
        )
        for task, traces in latencies.items()
    ]
    manifest = Manifest(
        **{
            "schema_version": SCHEMA_VERSION,
            "content_sha256": "",
            "made_at": "2026-11-25T00:00:00+00:00",
            "network": "",
            "target": TARGET,
            "hardware": HARDWARE,
            "versions": {"foretune": "0.1.0", "tvm": "0.27.0.post1"},
            "tasks": tasks,
            **fields,
        }
    )
    return Bundle(manifest, workloads, records)


def make_folder(
    folder: Path, latencies: Latencies, rounds: Mapping[int, tuple[int, int]] | None = None
) -> Path:
    """A folder of a tuning database."""
    folder.mkdir(parents=True)
    workloads, records = lines_of(latencies)
    (folder / WORKLOAD_FILE).write_text("".join(f"{line}\n" for line in workloads))
    (folder / RECORD_FILE).write_text("".join(f"{record.line(record.workload)}\n" for record in records))
    append_rounds(folder, {name_of(task): done for task, done in (rounds or {}).items()})
    return folder


def schedules_in(folder: Path) -> dict[tuple[str, str], list[float]]:
    """Latencies in seconds by workload hash and trace, as many as the files of a folder hold."""
    names = [parsed_workload(line) for line in whole_lines(folder / WORKLOAD_FILE)]
    assert len(set(names)) == len(names)
    found: dict[tuple[str, str], list[float]] = {}
    for line in whole_lines(folder / RECORD_FILE):
        record = parsed_record(line, len(names))
        found.setdefault((names[record.workload], record.trace), []).append(record.latency_s)
    return found


def zip_of(path: Path, members: Sequence[tuple[str | zipfile.ZipInfo, bytes]]) -> Path:
    """A zip file with these members, whatever they are."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return path
