"""Inputs of the models: features of a program and of its device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from foretune.compiler.hardware import HARDWARE_COLUMNS
from foretune.dataset.features.draft_vector import (
    BALANCE,
    BAND_BYTES,
    FILLED,
    INNERMOST,
    LANES,
    PARALLEL,
    moved_bytes,
)
from foretune.dataset.features.roofline import intensity_ratio, latency_bound_s
from foretune.dataset.features.table import FeatureTable, LabelledFeatures, draft_table
from foretune.dataset.features.vectors import TASK_DIM
from numpy.typing import NDArray

from .records import Programs

CACHES = ("l1_bytes", "l2_bytes", "l3_bytes")
FLOAT_BITS = 32
BASELINE = "task"
"""Inputs of a model that knows nothing of the program and its device."""


def with_inputs(programs: Programs, name: str) -> LabelledFeatures:
    """The records with some inputs (`INPUTS`) as their features.

    All inputs are columns after the task vector. The hardware vector describes the reference device, so that
    a model's least latencies, to which its targets are relative, depend on the task alone.
    """
    own, reference = programs.data.features, programs.reference
    columns = np.hstack([reference.task[:, :TASK_DIM], *INPUTS[name](own, reference)])
    return replace(programs.data, features=draft_table(columns, reference.hardware))


INPUTS: Mapping[str, Callable[[FeatureTable, FeatureTable], list[NDArray[np.float32]]]] = {
    BASELINE: lambda own, reference: [],
    "program": lambda own, reference: [reference.task[:, TASK_DIM:]],
    "hardware": lambda own, reference: [own.task[:, TASK_DIM:], own.hardware],
    "interactions": lambda own, reference: [own.task[:, TASK_DIM:], own.hardware, interactions(own)],
}
"""Inputs after the task vector, given the features for a record's own device and for the reference device.

`program` is the draft vector of every program as if it ran on the reference device. `hardware` is the draft
vector for the own device, whose columns depend on caches, cores and vectors, with the hardware vector, as the
shipped models read them."""


def interactions(features: FeatureTable) -> NDArray[np.float32]:
    """Quantities of programs over those of their devices, and predicted seconds, all log2; float32 [n, 33].

    The columns are the bytes that the loops inside each band touch over the size of each cache (24); lanes
    and innermost extent over the lanes of a register; parallel iterations over cores; the least seconds of
    the task by the roofline. Then follow the seconds of the program in closed form: of its arithmetic at the
    peak, longer by idle cores and lanes; of the bytes past each cache at the bandwidth of the memory; and the
    longer of arithmetic and memory.
    """
    draft = features.task[:, TASK_DIM:]

    def of_device(name: str) -> NDArray[np.float32]:
        return features.hardware[:, HARDWARE_COLUMNS[name], None]

    least = np.log2(latency_bound_s(features))[:, None]
    moved = np.stack([moved_bytes(draft, level) for level in (1, 2, 3)], axis=1)
    gbs = np.exp2(of_device("bandwidth_gbs").astype(np.float64)) - 1
    memory = np.log2(np.maximum(moved, 1) / (gbs * 1e9))
    # The ratio is of seconds of arithmetic to those of one byte, which takes 1 / bandwidth.
    one = np.log2(intensity_ratio(features.task, features.hardware, np.ones(len(draft))))[:, None]
    filled = np.maximum(draft[:, [FILLED]], 1 / 64)
    core = one - np.log2(gbs * 1e9) + np.log2(draft[:, [BALANCE]] / filled)
    ratios = [
        *(draft[:, BAND_BYTES] - of_device(cache) for cache in CACHES),
        draft[:, [LANES, INNERMOST]] + np.log2(FLOAT_BITS) - of_device("vector_bits"),
        draft[:, [PARALLEL]] - of_device("cores"),
        least,
        core,
        memory,
        np.maximum(core, memory[:, -1:]),
    ]
    return np.hstack(ratios).astype(np.float32)


def least_over_reference(programs: Programs) -> NDArray[np.float64]:
    """Least latency of each record's task on its device over that on the reference device, [n]."""
    return latency_bound_s(programs.data.features) / latency_bound_s(programs.reference)
