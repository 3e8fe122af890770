"""Reuse pairs of a dataset, and the programs that the ranges of each pair hold."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations, product
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from foretune.compiler.structure.nest import Nest
from foretune.compiler.structure.read_structure import read_structure
from foretune.compiler.structure.read_traces import SketchReader
from foretune.dataset.records.store import RecordStore
from foretune.inference.eto.search.program_features import (
    COUNTERPARTS,
    FeatureRanges,
    Interval,
    has_threads,
    program_features,
)
from foretune.inference.reuse.conditions import Operator, SketchSignature, can_reuse, operator_from
from numpy.typing import NDArray
from tvm.target import Target

FAST = 0.9
"""Share of the best performance above which a program counts as fast (t in section 3)."""

LEAST_PROGRAMS = 16
"""Programs of a sketch from which on a task counts, by default."""

PLACES = 8
"""Random positions of a range of the same width."""

KINDS = ("blocks", "threads", "shared")
"""B, T and M."""

CHOICES = tuple(product(*(COUNTERPARTS[kind] for kind in KINDS)))
"""Counterparts of B, T and M together."""

Features = Mapping[tuple[str, str], NDArray[np.float64]]
"""Values by feature and counterpart, each [n]. On a GPU the counterpart is the feature itself."""


@dataclass(frozen=True)
class Measured:
    """Programs of one sketch of a task on one device."""

    operator: Operator
    latencies_s: NDArray[np.float64]
    features: Features
    has_best: bool
    """Whether the task's fastest program is of this sketch."""
    workload_hash: str

    @property
    def fast(self) -> NDArray[np.bool_]:
        """Programs within FAST of the best."""
        return self.latencies_s <= self.latencies_s.min() / FAST


def measured_tasks(dataset: Path, least: int = LEAST_PROGRAMS) -> dict[Any, list[Measured]]:
    """Sketches of tasks with `least` programs that ran, by device, target, operator type and sketch.

    On a GPU, a sketch that binds no loop of a tiled nest to threads is left out.
    """
    store = RecordStore(dataset).require()
    by_task: defaultdict[str, defaultdict[Any, list[tuple[str, float]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for record in store.records():
        if record.failure is None and not record.simulated:
            device = record.hardware_id, record.target
            by_task[record.workload_hash][device].append((record.trace, record.latency_s))
    found: defaultdict[Any, list[Measured]] = defaultdict(list)
    for row in store.tasks():
        structure = read_structure(tvm.ir.load_json(row.tir))
        reader = SketchReader(structure)
        for device, records in by_task.get(row.workload_hash, {}).items():
            best_s = min(latency_s for _, latency_s in records)
            for sketch, values, numbers in reader.group_by_sketch([trace for trace, _ in records]):
                if not sketch.structure or len(numbers) < least:
                    continue
                latencies_s = np.array([records[number][1] for number in numbers])
                features = features_of(Nest.of(sketch, values), on_gpu=Target(device[1]).kind.name == "cuda")
                if not features:
                    continue
                operator = operator_from(row.operator, sketch.block)
                key = device, operator.type, SketchSignature.of(sketch)
                known = Measured(
                    operator, latencies_s, features, latencies_s.min() == best_s, row.workload_hash
                )
                found[key].append(known)
    return found


def features_of(nest: Nest, *, on_gpu: bool) -> Features:
    """B, T and M of programs; a CPU's counterparts. Empty for programs of a GPU without bound loops."""
    if not on_gpu:
        return {
            (kind, name): function(nest).astype(np.float64)
            for kind, functions in COUNTERPARTS.items()
            for name, function in functions.items()
        }
    if not has_threads(nest):
        return {}
    found = program_features(nest)
    return {(kind, kind): getattr(found, kind) for kind in KINDS}


def reuse_pairs(tasks: Mapping[Any, Sequence[Measured]]) -> list[tuple[Measured, Measured]]:
    """Ordered (child, parent) of Definition 2 whose parent's fastest program is of the sketch."""
    return [
        (child, parent)
        for alike in tasks.values()
        for child, parent in permutations(alike, 2)
        if parent.has_best
        and parent.workload_hash != child.workload_hash
        and parent.operator.extents != child.operator.extents
        and can_reuse(parent.operator, child.operator)
    ]


def pair_rows(
    pairs: Sequence[tuple[Measured, Measured]], rng: np.random.Generator
) -> Iterator[dict[str, list[float]]]:
    """Yields for each pair, by feature or choice: [hit, kept, chance, hit elsewhere, kept elsewhere].

    Names are `blocks/chunks` and the like, and `chunks+register_tiles+step_bytes` for all three. On a GPU
    they are `blocks/blocks` and the like, and `blocks+threads+shared`.
    """
    for child, parent in pairs:
        ranges = FeatureRanges.of(parent.operator, child.operator)
        best = int(parent.latencies_s.argmin())
        inside: dict[tuple[str, str], NDArray[np.bool_]] = {}
        elsewhere: dict[tuple[str, str], NDArray[np.bool_]] = {}
        for (kind, name), values in child.features.items():
            interval: Interval = getattr(ranges, kind)
            inside[kind, name] = interval.scaled(float(parent.features[kind, name][best])).contains(values)
            elsewhere[kind, name] = _at_random(values, interval, rng)
        row = {
            f"{kind}/{name}": _entry(inside[kind, name], elsewhere[kind, name], child.fast)
            for kind, name in inside
        }
        for choice in product(*([name for of, name in inside if of == kind] for kind in KINDS)):
            keys = list(zip(KINDS, choice, strict=True))
            row["+".join(choice)] = _entry(
                np.logical_and.reduce([inside[key] for key in keys]),
                np.logical_and.reduce([elsewhere[key] for key in keys]),
                child.fast,
            )
        yield row


def _at_random(
    values: NDArray[np.float64], interval: Interval, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Programs inside ranges of the same width at random positions of the values' logarithms; [PLACES, n]."""
    logs = np.log(np.maximum(values, 1e-9))
    width = math.log(interval.high / interval.low)
    lows = rng.uniform(logs.min(), max(logs.max() - width, logs.min() + 1e-9), PLACES)[:, None]
    kept: NDArray[np.bool_] = (logs >= lows - 1e-9) & (logs <= lows + width + 1e-9)
    return kept


def _entry(inside: NDArray[np.bool_], elsewhere: NDArray[np.bool_], fast: NDArray[np.bool_]) -> list[float]:
    return [
        float((inside & fast).any()),
        float(inside.mean()),
        chance(len(fast), int(fast.sum()), int(inside.sum())),
        float((elsewhere & fast).any(axis=1).mean()),
        float(elsewhere.mean()),
    ]


def chance(programs: int, fast: int, kept: int) -> float:
    """Probability that `kept` random programs include one of the fast ones."""
    if kept == 0:
        return 0.0
    if programs - fast < kept:
        return 1.0
    none = math.lgamma(programs - fast + 1) - math.lgamma(programs - fast - kept + 1)
    return 1 - math.exp(none - math.lgamma(programs + 1) + math.lgamma(programs - kept + 1))
