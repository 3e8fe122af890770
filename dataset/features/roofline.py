"""Memory and core scores of a program by the roofline of its device.

Fasor's cost model predicts latency, a memory-bound score and a core-bound score (section 4.1). The scores
label the bottleneck (section 7.1), choose the primitives worth tuning (section 5) and, as their ratio, reward
schedules with little communication (section 6, after the roofline of Williams et al. 2009, Figure 6). The
paper reads the scores from hardware counters. Here they follow from the roofline, with measured latency T:

    memory score MS = max over levels l of (bytes_l / bandwidth_l) / T
    core score   CS = (instructions / instructions per second at the peak) / T

Each score is the fraction of T that the device would need at its ceiling. A program with MS > CS is limited
by the memory hierarchy, one with CS > MS by its arithmetic.

Bytes and instructions are counted in the lowered program (`program_counts`), so programs of the same task
differ in both. If a record has data from the CPU's performance counters (`measure.memory_counters`), its
bytes past the last cache are the measured ones; all other counts come from the program. Records with and
without counters can be mixed, since they differ in the source of only one of four levels.

The module does not need TVM. Counts come with the records (`LabelledFeatures`), and the ceilings of a device
are recovered from the features. Bandwidths of caches are not measured. They are the bytes per cycle that x86
cores sustain, times the cycles that the measured peak of arithmetic implies for two multiply-adds per cycle.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...compiler.hardware import HARDWARE_COLUMNS, Hardware
from .table import FeatureBatch, FeatureTable, LabelledFeatures

_FLOPS, _COMPULSORY_BYTES = 46, 47
"""Columns of the task vector (`features.task`), with which draft vectors begin, too; log2(1 + x)."""
_VECTOR_BITS, _PEAK_GFLOPS, _BANDWIDTH_GBS = (
    HARDWARE_COLUMNS[name] for name in ("vector_bits", "peak_gflops", "bandwidth_gbs")
)

REGISTER_LOADS, L1_BYTES, L2_BYTES = 2, 32, 16
"""Vectors that a core loads from its first cache per cycle, and bytes per cycle from the second and third."""

ADDITION = 4
"""Cycles of an addition."""

_ISSUED = 2
"""Arithmetic vector instructions per cycle and core at the peak."""

_WAIT_S = 1e-8
"""Seconds to load a line that no prefetcher foresaw, with several in flight, or that another core holds."""

_SHORTEST_S = 1e-12
"""Seconds for work that a program does not have, such as arithmetic in a copy."""

_DOUBLINGS = 64.0
"""Bound on work over the least latency, log2."""


@dataclass(frozen=True)
class RooflineScores:
    """Memory and core scores, both float64 [n] in [0, 1]; 0 for a failed candidate."""

    memory: NDArray[np.float64]
    core: NDArray[np.float64]


def roofline_scores(
    latency_s: ArrayLike, instructions: ArrayLike, moved_bytes: ArrayLike, hardware: NDArray[np.float32]
) -> RooflineScores:
    """Scores of n programs; a score above 1, caused by an inexact count or ceiling, is clipped to 1.

    Args:
      latency_s: seconds [n], inf for a failure.
      instructions, moved_bytes: [n] and [n, 4], see `program_counts`.
      hardware: vectors [n, HARDWARE_DIM] or [HARDWARE_DIM] of `Hardware.features`.
    """
    latency = np.asarray(latency_s, dtype=np.float64)
    core_s, memory_s = _ceiling_s(instructions, moved_bytes, hardware)
    return RooflineScores(
        memory=np.minimum(memory_s.max(axis=-1) / latency, 1.0),
        core=np.minimum(core_s / latency, 1.0),
    )


def _ceiling_s(
    instructions: ArrayLike, moved_bytes: ArrayLike, hardware: NDArray[np.float32]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Seconds that n programs need at the ceilings of arithmetic [n] and of each level of memory [n, 4]."""
    lanes, cycles = _lanes(hardware), _cycles(hardware)
    bandwidths = [
        REGISTER_LOADS * 4 * lanes * cycles,
        L1_BYTES * cycles,
        L2_BYTES * cycles,
        _quantity(hardware[..., _BANDWIDTH_GBS]) * 1e9,
    ]
    core_s: NDArray[np.float64] = np.asarray(instructions) / (_ISSUED * cycles)
    return core_s, np.asarray(moved_bytes, dtype=np.float64) / np.stack(bandwidths, axis=-1)


def _lanes(hardware: NDArray[np.float32]) -> NDArray[np.float64]:
    """32-bit elements in a vector, [n]."""
    lanes: NDArray[np.float64] = np.maximum(_quantity(hardware[..., _VECTOR_BITS]) / 32, 1)
    return lanes


def _cycles(hardware: NDArray[np.float32]) -> NDArray[np.float64]:
    """Cycles per second of all cores together, as implied by the peak of arithmetic, [n]."""
    per_cycle = 2 * _lanes(hardware) * _ISSUED  # a lane multiplies and adds
    cycles: NDArray[np.float64] = _quantity(hardware[..., _PEAK_GFLOPS]) * 1e9 / per_cycle
    return cycles


WORK_DIM, EARLIER_WORK_DIM = 22, 12
"""Columns of `work_features`, and the number of leading columns that models with cards of schema 6 read."""

_CEILINGS = 5
"""The first counts, instructions and bytes; the device has a ceiling for each."""


def work_features(
    counts: NDArray[np.float32], task: NDArray[np.float32], hardware: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Work of programs on a device, from their counts, float32 [n, WORK_DIM].

    The columns are the counts of instructions and of bytes, the seconds that each needs at its ceiling, and
    the largest seconds of all and of memory; then the other counts, and their seconds. Seconds are relative
    to the task's least latency, in log2.

    Args:
      counts: [n, COUNT_DIM], see `FeatureTable`.
      task, hardware: [n, dim] as in `FeatureTable`.
    """
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # of features that no program has
        amounts = _quantity(counts)
        core_s, memory_s = _ceiling_s(amounts[:, 0], amounts[:, 1:_CEILINGS], hardware)
        seconds = np.column_stack([core_s, memory_s])
        cycles = _cycles(hardware)
        scattered, lines, chained = np.split(amounts[:, _CEILINGS:], [1, -1], axis=1)
        per_cycle = np.column_stack([scattered / REGISTER_LOADS, chained * ADDITION]) / cycles[:, None]
        waits = np.column_stack([per_cycle[:, 0], lines * _WAIT_S, per_cycle[:, 1]])
        columns = np.column_stack([seconds, seconds.max(axis=1), memory_s.max(axis=1), waits])
        least = np.log2(_latency_bound_s(task, hardware))[:, None]
        over = np.log2(np.maximum(columns, _SHORTEST_S)) - least
    bounded = np.clip(np.nan_to_num(over), -_DOUBLINGS, _DOUBLINGS)
    ceilings = _CEILINGS + 2
    parts = [counts[:, :_CEILINGS], bounded[:, :ceilings], counts[:, _CEILINGS:], bounded[:, ceilings:]]
    return np.column_stack(parts).astype(np.float32)


def roofline_latency_s(flops: float, moved_bytes: float, hardware: Hardware) -> float:
    """Lower bound on the latency in seconds, from the device's roofline."""
    return max(flops / (hardware.peak_gflops * 1e9), moved_bytes / (hardware.bandwidth_gbs * 1e9))


def dataset_scores(data: LabelledFeatures) -> RooflineScores:
    """Scores of all records in a dataset; computed as labels at load time, not stored."""
    return roofline_scores(data.latency_s, data.instructions, data.moved_bytes, data.features.hardware)


def memory_bound(flops: float, moved_bytes: float, hardware: Hardware) -> bool:
    """Whether a task with these operations and compulsory bytes lies left of the device's ridge point."""
    return moved_bytes / hardware.bandwidth_gbs > flops / hardware.peak_gflops


def latency_bound_s(features: FeatureTable | FeatureBatch) -> NDArray[np.float64]:
    """Lower bound on each task's latency from its device's roofline, float64 [n] in seconds.

    Bytes are those of the task's arguments, so the bound does not depend on the program. Quantities are
    recovered from the raw features, to about one part in a million.
    """
    return _latency_bound_s(features.task, features.hardware)


def _latency_bound_s(task: NDArray[np.float32], hardware: NDArray[np.float32]) -> NDArray[np.float64]:
    core_s = _quantity(task[:, _FLOPS]) / (_quantity(hardware[:, _PEAK_GFLOPS]) * 1e9)
    memory_s = _quantity(task[:, _COMPULSORY_BYTES]) / (_quantity(hardware[:, _BANDWIDTH_GBS]) * 1e9)
    least: NDArray[np.float64] = np.maximum(core_s, memory_s)
    return least


def intensity_ratio(
    task: NDArray[np.float32], hardware: NDArray[np.float32], moved_bytes: ArrayLike
) -> NDArray[np.float64]:
    """CS / MS of programs that move this many bytes, whatever their latency; [n], 1 at the ridge point.

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
