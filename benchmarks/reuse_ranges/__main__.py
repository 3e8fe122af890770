"""Entry of `python -m benchmarks.reuse_ranges`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from .. import reuse_ranges
from ..common import RESULTS, argument_parser, read_json, start, this_machine, write_json, write_result
from .study import CHOICES, KINDS, LEAST_PROGRAMS, measured_tasks, pair_rows, reuse_pairs

FIELDS = ("hit", "kept", "chance", "hit_elsewhere", "kept_elsewhere")
CHOSEN_ON = "cpu"
"""Dataset for choosing the CPU's counterparts of the features; the other datasets test them."""

GPU = "gpu"
"""Variant of the result of GPU records, whose features are the paper's own."""


def main() -> None:
    parser = argument_parser(reuse_ranges)
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
    parser.add_argument("--out", type=Path, default=RESULTS, help="(%(default)s)")
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
        folder = write_result(
            "reuse_ranges",
            result,
            begun,
            this_machine(),
            variant=given.variant,
            notes="Computed from the records in data/; nothing was timed.",
            results=given.out,
        )
        print(f"wrote {folder}: chosen {result['chosen']}")


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
