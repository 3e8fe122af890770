"""Memory and core scores of a program by the roofline of its device.

Fasor's cost model predicts latency, a memory-bound score and a core-bound score (section 4.1). The scores
label the bottleneck (section 7.1), choose the primitives worth tuning (section 5) and, as their ratio, reward
schedules with little communication (section 6, after the roofline of Williams et al. 2009, Figure 6). The
paper reads the scores from hardware counters. Here they follow from the roofline, with measured latency T:

    memory score MS = (bytes / bandwidth) / T        core score CS = (operations / peak arithmetic) / T

Each score is the fraction of T that the device would need at its ceiling. CS / MS is the operational
intensity over that of the ridge point: a program left of the ridge has MS > CS and is limited by the memory.

`bytes` are the bytes that the program fetched from memory if the CPU's counters were read
(`measure.memory_counters`). Without counters, as on GPUs and many virtual machines, `bytes` are those of the
task's arguments: equal for all its programs, so that their memory scores differ by latency only. The two
definitions are not equivalent; the datasheet of a dataset reports how many records have counted bytes.

The module does not need TVM. Operations and bytes come with the records (`LabelledFeatures`). Those of a task
and the ceilings of its device are also recovered from the features, so serving has them, too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .features.table import FeatureBatch, FeatureTable, LabelledFeatures
from .hardware.description import Hardware

_FLOPS, _COMPULSORY_BYTES = 46, 47
"""Columns of the task vector (`features.task`), with which draft vectors begin, too; log2(1 + x)."""
_PEAK_GFLOPS, _BANDWIDTH_GBS = -2, -1
"""Columns of the hardware vector (`Hardware.features`), log2(1 + x)."""


@dataclass(frozen=True)
class RooflineScores:
    """Memory and core scores, both float64 [n] in [0, 1]; 0 for a failed candidate."""

    memory: NDArray[np.float64]
    core: NDArray[np.float64]


def roofline_scores(
    latency_s: ArrayLike,
    flops: ArrayLike,
    moved_bytes: ArrayLike,
    peak_gflops: ArrayLike,
    bandwidth_gbs: ArrayLike,
) -> RooflineScores:
    """Scores of n candidates; arguments broadcast to [n], and latencies are in seconds, inf for a failure.

    A score above 1, caused by an inexact traffic or ceiling, is clipped to 1.
    """
    latency = np.asarray(latency_s, dtype=np.float64)
    memory_s = np.asarray(moved_bytes) / (np.asarray(bandwidth_gbs) * 1e9)
    core_s = np.asarray(flops) / (np.asarray(peak_gflops) * 1e9)
    return RooflineScores(
        memory=np.minimum(memory_s / latency, 1.0),
        core=np.minimum(core_s / latency, 1.0),
    )


def roofline_latency_s(flops: float, moved_bytes: float, hardware: Hardware) -> float:
    """Lower bound of the latency in seconds by the device's roofline."""
    return max(flops / (hardware.peak_gflops * 1e9), moved_bytes / (hardware.bandwidth_gbs * 1e9))


def dataset_scores(data: LabelledFeatures) -> RooflineScores:
    """Scores of all records of a dataset; computed as labels at load time, not stored."""
    hardware = data.features.hardware
    return roofline_scores(
        data.latency_s,
        flops=data.flops,
        moved_bytes=data.moved_bytes,
        peak_gflops=_quantity(hardware[:, _PEAK_GFLOPS]),
        bandwidth_gbs=_quantity(hardware[:, _BANDWIDTH_GBS]),
    )


def latency_bound_s(features: FeatureTable | FeatureBatch) -> NDArray[np.float64]:
    """Lower bound of each task's latency by its device's roofline, float64 [n] in seconds.

    Bytes are those of the task's arguments, so the bound does not depend on the program. Quantities are
    recovered from the raw features, to about one part in a million.
    """
    task, hardware = features.task, features.hardware
    core_s = _quantity(task[:, _FLOPS]) / (_quantity(hardware[:, _PEAK_GFLOPS]) * 1e9)
    memory_s = _quantity(task[:, _COMPULSORY_BYTES]) / (_quantity(hardware[:, _BANDWIDTH_GBS]) * 1e9)
    least: NDArray[np.float64] = np.maximum(core_s, memory_s)
    return least


def intensity_ratio(
    task: NDArray[np.float32], hardware: NDArray[np.float32], moved_bytes: ArrayLike
) -> NDArray[np.float64]:
    """CS / MS of programs that move so many bytes, whatever their latency; [n], 1 at the ridge point.

    Args:
        task: task vectors [n, TASK_DIM or more].
        hardware: hardware vectors [n, HARDWARE_DIM].
        moved_bytes: bytes fetched by each program [n].
    """
    core_s = _quantity(task[:, _FLOPS]) / (_quantity(hardware[:, _PEAK_GFLOPS]) * 1e9)
    memory_s = np.asarray(moved_bytes) / (_quantity(hardware[:, _BANDWIDTH_GBS]) * 1e9)
    ratio: NDArray[np.float64] = core_s / np.maximum(memory_s, np.finfo(np.float64).tiny)
    return ratio


def _quantity(feature: NDArray[np.float32]) -> NDArray[np.float64]:
    return np.exp2(feature.astype(np.float64)) - 1.0
