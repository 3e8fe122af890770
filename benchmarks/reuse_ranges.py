r"""Do the ranges that a parent's program sets (ETO, section 3) hold fast programs of a child, and prune?

    python -m benchmarks.reuse_ranges --dataset data/cpu      # one dataset; its rows are kept
    python -m benchmarks.reuse_ranges --summarise             # the result, over all kept rows
    python -m benchmarks.reuse_ranges --variant gpu --dataset data/gpu --least 6 && \
        python -m benchmarks.reuse_ranges --variant gpu --summarise

A pair counts if ETO would reuse it: both tasks have the operator type and the sketch, one device measured
them, and the parent's fastest program is of this sketch. A feature's range holds a fast program if one of the
child's measured programs inside is within 90 % of its best. The result also contains

- the share of the child's programs that the range keeps: a range that keeps everything prunes nothing;
- the chance that the same number of random programs holds a fast one;
- ranges of the same width at random positions between the child's least and largest value.

On a GPU the features are the paper's own: thread blocks, threads, and shared memory of all blocks.
"""

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

from .common import argument_parser, read_json, start, this_machine, write_json, write_result

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


FIELDS = ("hit", "kept", "chance", "hit_elsewhere", "kept_elsewhere")
CHOSEN_ON = "cpu"
"""Dataset for choosing the CPU's counterparts of the features; the other datasets test them."""

GPU = "gpu"
"""Variant of the result of GPU records, whose features are the paper's own."""


def main() -> None:
    parser = argument_parser(__name__)
    parser.add_argument("--dataset", type=Path, help="folder of a dataset")
    parser.add_argument("--name", help="of the dataset in the result (that of its folder)")
    parser.add_argument("--summarise", action="store_true", help="write the result of all kept datasets")
    parser.add_argument("--most", type=int, default=6000, help="pairs of a dataset at most, by chance")
    parser.add_argument(
        "--least", type=int, default=LEAST_PROGRAMS, help="programs of a sketch that counts (%(default)s)"
    )
    parser.add_argument("--variant", default="", choices=("", GPU), help="gpu for records of a GPU")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", type=Path, default=Path("outputs/benchmarks/reuse_ranges"))
    given = parser.parse_args()
    work = given.work / given.variant
    if given.dataset is not None:
        kept = analysed(given.dataset, given.most, given.seed, given.least)
        write_json(work / f"{given.name or given.dataset.name}.json", kept)
        print(f"{given.dataset}: {kept['pairs']} pairs of {kept['all_pairs']}")
    if given.summarise:
        begun = start()
        datasets = {path.stem: read_json(path) for path in sorted(work.glob("*.json"))}
        result = {"fast": 0.9, **(of_gpus(datasets) if given.variant == GPU else summary(datasets))}
        write_result(
            "reuse_ranges",
            result,
            begun,
            this_machine(),
            variant=given.variant,
            notes="Computed from the records in data/; nothing was timed.",
            results=given.out,
        )
        print(f"chosen {result['chosen']}")


def analysed(dataset: Path, most: int, seed: int, least: int = LEAST_PROGRAMS) -> dict[str, Any]:
    """Means over the pairs of a dataset."""
    rng = np.random.default_rng(seed)
    measured = measured_tasks(dataset, least)
    pairs = reuse_pairs(measured)
    taken = rng.permutation(len(pairs))[:most]
    rows = list(pair_rows([pairs[number] for number in sorted(taken.tolist())], rng))
    names = list(rows[0]) if rows else []
    means = {name: np.mean([row[name] for row in rows], axis=0).tolist() for name in names}
    return {
        "pairs": len(rows),
        "all_pairs": len(pairs),
        "least_programs": least,
        "programs": sum(len(one.latencies_s) for alike in measured.values() for one in alike),
        "tasks": len({one.workload_hash for alike in measured.values() for one in alike}),
        "means": {name: dict(zip(FIELDS, values, strict=True)) for name, values in means.items()},
    }


def summary(datasets: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """All datasets, and the choice that exceeds chance the most on the choosing dataset."""
    datasets = {name: values for name, values in datasets.items() if values["pairs"]}
    on = datasets[CHOSEN_ON]["means"]
    chosen = max(("+".join(choice) for choice in CHOICES), key=lambda name: gain(on[name]))
    return {"chosen_on": CHOSEN_ON, "chosen": chosen, "datasets": datasets}


def of_gpus(datasets: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """All datasets; nothing is chosen, because the features are the paper's."""
    return {"chosen": "+".join(KINDS), "datasets": {name: of for name, of in datasets.items() if of["pairs"]}}


def gain(entry: dict[str, float]) -> float:
    """Share of pairs that a range holds, minus the share that as many random programs hold."""
    return entry["hit"] - entry["chance"]


if __name__ == "__main__":
    main()
