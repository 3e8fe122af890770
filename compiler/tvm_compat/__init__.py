"""Compatibility layer: code that depends on the TVM version, for the wheel pinned in pyproject.toml."""

from __future__ import annotations

import os

from ..host.threads import available_cores
from .expressions import IMPORT_LLVM, dtype_as_wide, importing_llvm, lane_dtype, lanes_of
from .host_cpu import OLDER_CPU, OlderCpuError, host_features, older_cpu
from .intrinsics import load_cpu_intrinsics, load_tensor_intrinsics
from .modules import (
    CUDA_PASSES,
    IF_THEN_ELSE,
    NoEntryError,
    argument_buffers,
    as_task_module,
    before_async_copies,
    bound_symbols,
    called_function,
    changes_layout,
    chooses_layout,
    entry_function,
    has_blocks,
    layout_free,
    module_from_json,
    named_main,
    register_clip_layouts,
    relax_bindings,
    vectorised,
    with_layout_free,
    without_layout_change,
    workload_hash,
)
from .search import (
    NoDesignSpaceError,
    counting_logger,
    design_spaces,
    make_tune_context,
    mutate,
    stock_space,
    trace_as_json,
)
from .targets import (
    UnknownTargetError,
    configure_thread_pool,
    cpu_target,
    missing_instruction_sets,
    parse_target,
    runs_here,
    target_cores,
    target_to_json,
)
from .tensor_cores import (
    MMA,
    MMA_PRODUCTS,
    WMMA,
    has_mma_fragments,
    mma_store_name,
    tensor_core_rule,
    tensor_core_way,
)

# TVM takes half of the cores for hyper-threads and leaves them idle, unless the number is set before its
# first parallel program.
os.environ.setdefault("TVM_NUM_THREADS", str(available_cores()))

__all__ = [
    "CUDA_PASSES",
    "IF_THEN_ELSE",
    "IMPORT_LLVM",
    "MMA",
    "MMA_PRODUCTS",
    "OLDER_CPU",
    "WMMA",
    "NoDesignSpaceError",
    "NoEntryError",
    "OlderCpuError",
    "UnknownTargetError",
    "argument_buffers",
    "as_task_module",
    "available_cores",
    "before_async_copies",
    "bound_symbols",
    "called_function",
    "changes_layout",
    "chooses_layout",
    "configure_thread_pool",
    "counting_logger",
    "cpu_target",
    "design_spaces",
    "dtype_as_wide",
    "entry_function",
    "has_blocks",
    "has_mma_fragments",
    "host_features",
    "importing_llvm",
    "lane_dtype",
    "lanes_of",
    "layout_free",
    "load_cpu_intrinsics",
    "load_tensor_intrinsics",
    "make_tune_context",
    "missing_instruction_sets",
    "mma_store_name",
    "module_from_json",
    "mutate",
    "named_main",
    "older_cpu",
    "parse_target",
    "register_clip_layouts",
    "relax_bindings",
    "runs_here",
    "stock_space",
    "target_cores",
    "target_to_json",
    "tensor_core_rule",
    "tensor_core_way",
    "trace_as_json",
    "vectorised",
    "with_layout_free",
    "without_layout_change",
    "workload_hash",
]
