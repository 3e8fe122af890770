"""How far a program's latency is explained by the memory and by the arithmetic of its device.

Fasor's cost model predicts latency, a memory-bound and a core-bound score (section 4.1); they
label the bottleneck (section 7.1), choose the primitives worth tuning (section 5) and, as their ratio, reward
schedules of little communication (section 6, after the roofline of Williams et al. 2009, Figure 6). The paper
reads them from hardware counters, which virtual machines and most users of GPUs do not have. Here they follow
from the roofline itself, with T the measured latency:

    memory score MS = (bytes / bandwidth) / T        core score CS = (operations / peak arithmetic) / T

Each is the share of T that the device would need at its ceiling. CS / MS is the operational intensity over
that of the ridge point, so a program left of the ridge has MS > CS and a ceiling set by the memory. `bytes`
are of the program rather than of the task where they are to tell schedules of one task apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import tvm
from numpy.typing import ArrayLike, NDArray

from .features.table import LabelledFeatures
from .hardware import Hardware
from .traffic import compulsory_bytes, traffic_bytes


@dataclass(frozen=True)
class RooflineScores:
    """Both float32 [n] in [0, 1]; 0 for a failed candidate."""

    memory: NDArray[np.float32]
    core: NDArray[np.float32]


def roofline_scores(
    latency_s: ArrayLike,
    flops: ArrayLike,
    moved_bytes: ArrayLike,
    peak_gflops: ArrayLike,
    bandwidth_gbs: ArrayLike,
) -> RooflineScores:
    """Scores of n candidates from quantities that broadcast to [n]; latencies in seconds, inf for a failure.

    A share over one means that the estimate of the traffic or the measured ceiling is off; it counts as one.
    """
    latency = np.asarray(latency_s, dtype=np.float64)
    memory_s = np.asarray(moved_bytes) / (np.asarray(bandwidth_gbs) * 1e9)
    core_s = np.asarray(flops) / (np.asarray(peak_gflops) * 1e9)
    return RooflineScores(
        memory=np.minimum(memory_s / latency, 1.0).astype(np.float32),
        core=np.minimum(core_s / latency, 1.0).astype(np.float32),
    )


def roofline_latency_s(flops: float, moved_bytes: float, hardware: Hardware) -> float:
    """The least latency that the roofline of a device allows."""
    return max(flops / (hardware.peak_gflops * 1e9), moved_bytes / (hardware.bandwidth_gbs * 1e9))


def program_bytes(mod: tvm.IRModule, hardware: Hardware) -> float:
    """Bytes that a scheduled module moves past the second cache: a core's own on a CPU, the last on a GPU.

    Where the size of that cache is not known, the bytes of the arguments.
    """
    return traffic_bytes(mod, hardware.l2_bytes) if hardware.l2_bytes else compulsory_bytes(mod)


def dataset_scores(data: LabelledFeatures, moved_bytes: NDArray[np.float64] | None = None) -> RooflineScores:
    """Scores of every record of a dataset: labels made when it is loaded, never stored as truth.

    `moved_bytes` [n] are `program_bytes` of the records; by default those of their tasks' arguments.
    Operations and ceilings are read back from the features, which hold them as log2(1 + x).
    """
    table = data.features
    if moved_bytes is None:
        moved_bytes = _quantity(table.task[:, -5])
    return roofline_scores(
        data.latency_s,
        flops=_quantity(table.task[:, -6]),
        moved_bytes=moved_bytes,
        peak_gflops=_quantity(table.hardware[:, -2]),
        bandwidth_gbs=_quantity(table.hardware[:, -1]),
    )


def _quantity(feature: NDArray[np.float32]) -> NDArray[np.float64]:
    return np.exp2(feature.astype(np.float64)) - 1.0
