"""Instructions allowed in a bundle's schedules: those in MetaSchedule's rules and in the templates.

Other instructions are refused, because some insert code of the author's choice, for example
`pragma_import_llvm`.
"""

from __future__ import annotations

from typing import Any

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
