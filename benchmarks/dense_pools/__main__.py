"""Dense pools of TenSet's test networks, and cost models compared on them by TenSet's metric.

    python -m benchmarks.dense_pools --part draw --programs 200 --minutes 120
    python -m benchmarks.dense_pools --part draw --programs 1000
    python -m benchmarks.dense_pools --part models
    python -m benchmarks.dense_pools --part models --apart --ensemble transformer trees

The first part measures valid programs of every task of ResNet-50, MobileNetV2, ResNeXt-50, BERT-base and
BERT-tiny on this CPU, half of them random, half evolved by a cost model that learns during the drawing
(Zheng et al., "TenSet: A Large-scale Program Performance Dataset for Learned Tensor Compilers", NeurIPS
2021). It is `foretune generate` with these settings: the same command continues after an interruption, and
more `--programs` extend the pools. They are for tests only, and `foretune generate` samples none of their
shapes. They serve `executor=replay`, too.

The second part rates the shipped models, XGBoost as MetaSchedule fits it, and TenSet's MLP with LambdaRank
(`tenset`), which are trained on the records of the shipped models. Tasks whose shape is among these records
are left out. With `--apart`, such records are left out of the training instead, so that all tasks count;
`--ensemble` then trains a model like the shipped one. Fits are kept in `--runs-in`, so a stopped benchmark
resumes. Words after `--` override settings of `foretune compare`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from foretune.errors import exits_cleanly
from foretune.signals import exit_status

from ..common import argument_parser, start, this_machine, write_result
from .drawing import NETWORKS, check_apart, check_held_out, check_pools, draw


def arguments_of(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser(__name__)
    add = parser.add_argument
    add("--part", choices=("draw", "models"), required=True)
    add("--pools", type=Path, default=Path("data/dense"), help="dataset of the pools (%(default)s)")
    drawing = parser.add_argument_group("of the part draw").add_argument
    drawing("--networks", nargs="+", default=list(NETWORKS), help="(%(default)s)")
    drawing("--programs", type=int, default=1000, help="valid programs of each task (%(default)s)")
    drawing("--most", type=int, help="measure at most about so many programs in this call")
    drawing("--minutes", type=float, help="end this call after so many")
    rating = parser.add_argument_group("of the part models").add_argument
    rating("--models", nargs="+", default=["xgb", "tenset", "random"], help="to train (%(default)s)")
    rating("--apart", action="store_true", help="train without the pools' shapes, and test on all tasks")
    rating("--ensemble", nargs="+", default=[], metavar="MODEL", help="combine these, with --apart")
    rating("--baseline", default="xgb", help="of the printed margins (%(default)s)")
    rating("--seeds", type=int, nargs="+", default=[0], help="of each training (%(default)s)")
    rating("--epochs", type=int, default=30, help="at most, of each training (%(default)s)")
    rating("--threads", type=int, default=1, help="of torch (%(default)s)")
    rating("--runs-in", type=Path, default=Path("outputs/benchmarks/dense_pools"), help="(%(default)s)")
    rating("overrides", nargs="*", metavar="OVERRIDE", help="for foretune compare, after a --")
    options = parser.parse_args(words)
    if options.ensemble and not options.apart:
        parser.error("--ensemble needs --apart: the shipped ensemble takes part otherwise")
    return options


def rate(options: argparse.Namespace) -> None:
    """Rates the models and writes the result, named after the device of the pools."""
    import torch
    from foretune.dataset.features.dataset import load_labelled_features
    from foretune.dataset.records.store import RecordStore

    from ..cost_models.__main__ import SHIPPED
    from ..cost_models.records import merged
    from .rating import rated

    begun = start()
    device = check_pools(options.pools)
    check_held_out(RecordStore(options.pools).tasks())
    table = SHIPPED[0]
    check_apart(options.pools, map(Path, table.datasets))
    torch.set_num_threads(options.threads)
    known = load_labelled_features(merged(table.datasets, options.runs_in / "records"))
    result = rated(table, known, load_labelled_features(options.pools), options)
    write_result(
        "dense_pools",
        result,
        begun,
        device,
        variant="apart" if options.apart else "",
        notes="The machine measured the pools; another one may have computed on them.",
        results=options.out,
    )


@exits_cleanly()
def main() -> None:
    options = arguments_of()
    if options.part == "models":
        rate(options)
        return
    if any(options.pools.glob("records-*.parquet")):
        check_pools(options.pools, this_machine())
    summary = draw(
        options.pools, options.networks, options.programs, most=options.most, minutes=options.minutes
    )
    if summary.interrupted:
        sys.exit(exit_status(summary.interrupted))


if __name__ == "__main__":
    main()
