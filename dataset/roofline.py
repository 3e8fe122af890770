"""How far a program's latency is explained by the memory and by the arithmetic of its device.

Fasor's cost model predicts latency, a memory-bound and a core-bound score (section 4.1); they
label the bottleneck (section 7.1), choose the primitives worth tuning (section 5) and, as their ratio, reward
schedules of little communication (section 6, after the roofline of Williams et al. 2009, Figure 6). The paper
reads them from hardware counters. Here they follow from the roofline itself, with T the measured latency, and
counters give the bytes where the machine has them:

    memory score MS = (bytes / bandwidth) / T        core score CS = (operations / peak arithmetic) / T

Each is the share of T that the device would need at its ceiling. CS / MS is the operational intensity over
that of the ridge point, so a program left of the ridge has MS > CS and a ceiling set by the memory.

Where the CPU's counters were read (`measure.memory_counters`), `bytes` are what the program fetched from
memory. Many virtual machines show none, and those of a GPU are not read: elsewhere `bytes` are those of the
task's arguments, the same for all its programs, and the memory score tells them apart by latency alone. The
two do not mean quite the same; the datasheet of a dataset says for how many records bytes were counted.

Nothing here needs TVM: counts of operations and bytes come with the records (`LabelledFeatures`), and those
of a task and the ceilings of its device are read back from the features, so that serving knows them, too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .features.table import FeatureBatch, FeatureTable, LabelledFeatures
from .hardware.description import Hardware

_FLOPS, _COMPULSORY_BYTES = 46, 47
"""Columns of the task vector (`features.task`), which the vectors of `drafting` begin with; log2(1 + x)."""
_PEAK_GFLOPS, _BANDWIDTH_GBS = -2, -1
"""Columns of the hardware vector (`Hardware.features`), log2(1 + x)."""


@dataclass(frozen=True)
class RooflineScores:
    """Both float64 [n] in [0, 1]; 0 for a failed candidate."""

    memory: NDArray[np.float64]
    core: NDArray[np.float64]


def roofline_scores(
    latency_s: ArrayLike,
    flops: ArrayLike,
    moved_bytes: ArrayLike,
    peak_gflops: ArrayLike,
    bandwidth_gbs: ArrayLike,
) -> RooflineScores:
    """Scores of n candidates from quantities that broadcast to [n]; latencies in seconds, inf for a failure.

    A share over one means that the traffic or the measured ceiling is off; it counts as one.
    """
    latency = np.asarray(latency_s, dtype=np.float64)
    memory_s = np.asarray(moved_bytes) / (np.asarray(bandwidth_gbs) * 1e9)
    core_s = np.asarray(flops) / (np.asarray(peak_gflops) * 1e9)
    return RooflineScores(
        memory=np.minimum(memory_s / latency, 1.0),
        core=np.minimum(core_s / latency, 1.0),
    )


def roofline_latency_s(flops: float, moved_bytes: float, hardware: Hardware) -> float:
    """The least latency that the roofline of a device allows."""
    return max(flops / (hardware.peak_gflops * 1e9), moved_bytes / (hardware.bandwidth_gbs * 1e9))


def dataset_scores(data: LabelledFeatures) -> RooflineScores:
    """Scores of every record of a dataset: labels made when it is loaded, never stored as truth."""
    hardware = data.features.hardware
    return roofline_scores(
        data.latency_s,
        flops=data.flops,
        moved_bytes=data.moved_bytes,
        peak_gflops=_quantity(hardware[:, _PEAK_GFLOPS]),
        bandwidth_gbs=_quantity(hardware[:, _BANDWIDTH_GBS]),
    )


def least_latency_s(features: FeatureTable | FeatureBatch) -> NDArray[np.float64]:
    """float64 [n] seconds that the roofline of each candidate's device allows its task at least.

    The bytes are those of the task's arguments, whatever the program, so that it is known before a program
    is. Read back from the raw features, to about one part in a million.
    """
    task, hardware = features.task, features.hardware
    core_s = _quantity(task[:, _FLOPS]) / (_quantity(hardware[:, _PEAK_GFLOPS]) * 1e9)
    memory_s = _quantity(task[:, _COMPULSORY_BYTES]) / (_quantity(hardware[:, _BANDWIDTH_GBS]) * 1e9)
    least: NDArray[np.float64] = np.maximum(core_s, memory_s)
    return least


def _quantity(feature: NDArray[np.float32]) -> NDArray[np.float64]:
    return np.exp2(feature.astype(np.float64)) - 1.0
