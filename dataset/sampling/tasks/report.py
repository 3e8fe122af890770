"""Report on a sampler's draws compared with zoos and networks.

Run it with `python -m foretune.dataset.sampling.tasks.report`. One-Shot Tuner (section 5) keeps its test
networks out of the prior, and still finds that they have 9-12 % of their layers in common with the sampled
tasks.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from itertools import islice
from pathlib import Path

from ....compiler.operators import OperatorSettings
from ...records.task_shapes import shape_of
from ..zoo.table import ZOO_TABLE, ZooRow, read_zoo_table
from .derived import with_derived
from .sampling import SAMPLERS, sample_settings


def report(drawn: Sequence[OperatorSettings], rows: Iterable[ZooRow]) -> list[str]:
    """Lines on the operators and epilogues of draws without hold-out, and their overlap with the rows."""
    zoo: set[OperatorSettings] = set()
    tested: defaultdict[str, set[OperatorSettings]] = defaultdict(set)
    for row in rows:
        shape = shape_of(row.settings)
        if row.networks:
            zoo.add(shape)
        for network in row.evaluation:
            tested[network].add(shape)
    shapes = {shape_of(settings) for settings in drawn}
    return [
        f"{_share(shapes, shapes - zoo)} are of no crawled network",
        f"{_share(shapes, shapes & set().union(*tested.values()))} are of an evaluation network",
        *(
            f"{_share(own, own & shapes)} of the operators of {name} are among them"
            for name, own in tested.items()
        ),
        _counts("operators", (settings.operator for settings in drawn)),
        _counts("epilogues", (settings.epilogue for settings in drawn)),
    ]


def _share(whole: Collection[OperatorSettings], part: Collection[OperatorSettings]) -> str:
    return f"{len(part) / len(whole):.1%}"


def _counts(title: str, names: Iterable[str]) -> str:
    counts = Counter(names).most_common()
    return f"{title}: " + ", ".join(f"{name} {count}" for name, count in counts)


def main(argv: Sequence[str] | None = None) -> None:
    """Prints the report of one sampler."""
    parser = argparse.ArgumentParser(
        prog="python -m foretune.dataset.sampling.tasks.report", description=__doc__
    )
    parser.add_argument("--sampler", choices=SAMPLERS, default="prior")
    parser.add_argument("--tasks", type=int, default=800, help="tasks to draw (%(default)s, as the paper)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--max-flops", type=float, default=4e9)
    parser.add_argument("--table", type=Path, default=ZOO_TABLE)
    options = parser.parse_args(argv)
    settings = sample_settings(
        options.sampler,
        seed=options.seed,
        max_flops=options.max_flops,
        hold_out_evaluation=False,
        table=options.table,
    )
    print(f"{options.tasks} tasks of sampler {options.sampler}, evaluation networks not held out:")
    for line in report(list(islice(settings, options.tasks)), with_derived(read_zoo_table(options.table))):
        print(f"  {line}")


if __name__ == "__main__":
    main()
