"""Tasks and schedules of a bundle that the TVM in this process can read.

Schedules may have the instructions of MetaSchedule's rules and of the templates. Others are refused, because
some insert code of the author's choice, for example `pragma_import_llvm`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import tvm
from tvm.s_tir import meta_schedule as ms

from ...compiler.described_task import described_task
from ...compiler.replay import trace_to_json
from ...compiler.tvm_compat import workload_hash
from ...dataset.records.database_lines import StoredRecord, parsed_workload
from ...dataset.records.exchange import parsed_tuning_record
from .format import Bundle

Warn = Callable[[str], None]
"""Receives a line about a schedule that is left out."""


@dataclass
class ReadTask:
    """One task of a bundle with its schedules."""

    line: str
    """Line of its workload, with the hash that this TVM computes."""
    workload_hash: str
    name: str
    operator: str
    rounds: tuple[int, int] = (0, 0)
    """Completed and planned rounds of its search."""
    mod: tvm.IRModule | None = None
    """None for a module that this TVM cannot read."""
    records: list[StoredRecord] = field(default_factory=list)
    """Schedules that apply to the task."""
    traces: list[str] = field(default_factory=list)
    """Canonical traces of the same schedules, see `trace_to_json`."""
    predicted: str = ""
    """Trace with postprocessing that a cost model predicted, as JSON, or ""."""
    left_out: int = 0
    """Number of schedules that do not apply or that `check_instructions` refuses."""


def read_tasks(bundle: Bundle, warn: Warn) -> list[ReadTask]:
    """Tasks of a bundle, one per workload; `warn` receives a line for each schedule that is left out."""
    workloads, tasks = [], []
    for line in bundle.workloads:
        workload, task = _read_workload(line, bundle)
        workloads.append(workload)
        tasks.append(task)
    for record in [*bundle.records, *bundle.predicted]:
        task, workload = tasks[record.workload], workloads[record.workload]
        try:
            if workload is None:
                raise ValueError(f"TVM {tvm.__version__} does not read its task")
            check_instructions(record.content[0])
            trace = trace_to_json(parsed_tuning_record(record.content, workload).trace)
        except Exception as error:  # TVM raises InternalError, TypeError, ValueError and others
            task.left_out += 1
            reason = (str(error).strip().splitlines() or [type(error).__name__])[-1]
            warn(f"task {task.name}: a schedule is left out, {reason}")
            continue
        if math.isinf(record.latency_s):
            task.predicted = record.trace
        else:
            task.records.append(record)
            task.traces.append(trace)
    return tasks


def _read_workload(line: str, bundle: Bundle) -> tuple[ms.database.Workload | None, ReadTask]:
    stored = parsed_workload(line)
    listed = next((task for task in bundle.manifest.tasks if task.workload_hash == stored), None)
    name, operator, rounds = stored, "unknown", (0, 0)
    if listed is not None:
        name, operator, rounds = listed.name, listed.operator, (listed.rounds, listed.rounds_of)
    _, module = json.loads(line)
    try:
        workload = ms.database.Workload.from_json(json.loads(line))
        found = workload_hash(workload.mod)
        if listed is None:
            described = described_task(workload.mod)
            name, operator = described.name, described.operator
    except Exception:  # as above
        return None, ReadTask(line, stored, name, operator, rounds)
    line = json.dumps([str(int(found, 16)), module], separators=(",", ":"))
    return workload, ReadTask(line, found, name, operator, rounds, workload.mod)


KINDS = frozenset(
    [
        *("SampleCategorical", "SampleComputeLocation", "SamplePartitionedTile", "SamplePerfectTile"),
        *("GetChildBlocks", "GetConsumers", "GetLoops", "GetOutputBlocks", "GetProducers", "GetSBlock"),
        *("AddUnitLoop", "Bind", "Fuse", "Parallel", "Reorder", "Split", "Unroll", "Vectorize"),
        *("ComputeAt", "ComputeInline", "ReverseComputeAt", "ReverseComputeInline"),
        *("CacheRead", "CacheWrite", "ReIndex", "ReindexCacheRead", "ReindexCacheWrite"),
        *("DecomposePadding", "DecomposeReduction", "PadEinsum", "RFactor", "SetScope", "StorageAlign"),
        *("Blockize", "Tensorize", "TransformBlockLayout", "TransformLayout"),
        *("Annotate", "Unannotate", "EnterPostproc"),
    ]
)

ANNOTATIONS = frozenset(
    [
        *("pragma_auto_unroll_max_step", "pragma_unroll_explicit", "pragma_loop_partition_hint"),
        *("software_pipeline_stage", "software_pipeline_order", "software_pipeline_async_stages"),
        *("double_buffer_scope", "tirx.manifest_shared_memory_local_stage", "warp_execution", "vector_bytes"),
    ]
)

ANNOTATION_PREFIXES = ("meta_schedule.", "foretune.")


def check_instructions(trace: Any) -> None:
    """Raises ValueError for a trace (JSON object) with any other instruction or annotation."""
    for kind, _, attributes, _ in trace[0]:
        if kind not in KINDS:
            raise ValueError(f"its instruction {kind} is none of MetaSchedule's rules")
        if kind == "Annotate" and not _is_known(str(attributes[0])):
            raise ValueError(f"its annotation {attributes[0]} is none of MetaSchedule's rules")


def _is_known(annotation: str) -> bool:
    return annotation in ANNOTATIONS or annotation.startswith(ANNOTATION_PREFIXES)
