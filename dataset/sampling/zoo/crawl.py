"""Crawl of model zoos for operator settings: `python -m foretune.dataset.sampling.zoo.crawl`.

One-Shot Tuner (section 4.1.1) derives its prior over tasks from public model zoos. Networks are built on the
`meta` device, so nothing is downloaded, weights need no memory, and a forward pass computes only shapes. Zoos
that are not installed are reported and left out.
"""

from __future__ import annotations

import argparse
import logging
import re
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.progress import track

from ....compiler.operators import OperatorSettings
from .networks import ZOOS, evaluation_networks
from .operator_log import NetworkFactory, log_operators
from .table import MAX_EXAMPLES, ZOO_TABLE, ZooRow, common_shares, read_zoo_table, write_zoo_table

NOT_COUNTED = re.compile(r"resnet[a-z]*18(?!\d)|mobilenet_?v2|bert_base|transformers\.Bert[A-Z]")
"""Networks that benchmarks tune, and their variants (other widths, attention blocks between the same
convolutions). They do not count: a prior must not follow the networks that it is tested on."""

RELABELLED = re.compile(r"_(cifar100|svhn|cub)$")
"""Variants that differ from another network only in the number of classes. They would count it twice."""

Networks = Iterable[tuple[str, NetworkFactory]]


@dataclass(frozen=True)
class Crawl:
    """Result of a crawl."""

    rows: list[ZooRow]
    networks: int
    repeated: int
    """Networks with the same calls as an earlier network: some architectures are in several zoos."""
    failed: Mapping[str, str]
    """Networks that did not run on the meta device, with the error."""
    skipped: Mapping[str, int]
    """Number of operator calls that settings cannot describe, by reason."""


def crawl(networks: Networks, evaluation: Networks = ()) -> Crawl:
    """Logs the networks, and marks the operators of `evaluation` networks. The order of the rows is fixed.

    Skips networks that match NOT_COUNTED or RELABELLED, and networks with exactly the calls of an evaluation
    network or of an earlier network.
    """
    calls: Counter[OperatorSettings] = Counter()
    callers: defaultdict[OperatorSettings, list[str]] = defaultdict(list)
    testers: defaultdict[OperatorSettings, list[str]] = defaultdict(list)
    skipped: Counter[str] = Counter()
    failed: dict[str, str] = {}
    seen = set()
    crawled = repeated = 0
    for name, factory in evaluation:
        found = log_operators(factory)
        seen.add(frozenset(found.calls.items()))
        for settings in found.calls:
            testers[settings].append(name)
    for name, factory in networks:
        if NOT_COUNTED.search(name) or RELABELLED.search(name):
            continue
        try:
            found = log_operators(factory)
        except Exception as error:  # networks of zoos raise anything on shapes without values
            failed[name] = f"{type(error).__name__}: {error}"
            continue
        same = frozenset(found.calls.items())
        if same in seen:
            repeated += 1
            continue
        seen.add(same)
        crawled += 1
        skipped += found.skipped
        calls += found.calls
        for settings in found.calls:
            callers[settings].append(name)
    rows = [
        ZooRow(s, calls[s], len(callers[s]), tuple(callers[s][:MAX_EXAMPLES]), tuple(testers[s]))
        for s in {**callers, **testers}
    ]
    return Crawl(_in_order(rows), crawled, repeated, failed, skipped)


def marked(rows: Iterable[ZooRow], evaluation: Networks) -> list[ZooRow]:
    """The rows of a table with the marks of these evaluation networks in place of earlier marks.

    The counts stay, so an evaluation network that was crawled before still counts.
    """
    testers: defaultdict[OperatorSettings, list[str]] = defaultdict(list)
    for name, factory in evaluation:
        for settings in log_operators(factory).calls:
            testers[settings].append(name)
    found = {row.settings: row for row in rows if row.networks or row.settings in testers}
    found |= {settings: ZooRow(settings, 0, 0, (), ()) for settings in testers if settings not in found}
    return _in_order(replace(row, evaluation=tuple(testers[row.settings])) for row in found.values())


def _in_order(rows: Iterable[ZooRow]) -> list[ZooRow]:
    return sorted(
        rows, key=lambda r: (r.settings.operator, -r.networks, r.settings.label, r.settings.epilogue)
    )


def installed(
    zoos: Mapping[str, Callable[[], Iterator[tuple[str, NetworkFactory]]]],
) -> tuple[list[tuple[str, NetworkFactory]], dict[str, str]]:
    """Networks of all zoos that can be imported, and the errors of the other zoos."""
    found: list[tuple[str, NetworkFactory]] = []
    missing: dict[str, str] = {}
    for zoo, networks in zoos.items():
        try:
            found += networks()
        except (ImportError, RuntimeError) as error:  # torchvision of another build raises the second
            missing[zoo] = str(error).partition("\n")[0]
    return found, missing


@contextmanager
def without_warnings() -> Iterator[None]:
    """Context that suppresses warnings of zoos about their own networks."""
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)


def main(argv: Sequence[str] | None = None) -> None:
    """Writes the table and prints a summary of it."""
    parser = argparse.ArgumentParser(
        prog="python -m foretune.dataset.sampling.zoo.crawl", description=__doc__
    )
    parser.add_argument("--output", type=Path, default=ZOO_TABLE, help="CSV file to write (%(default)s)")
    parser.add_argument("--zoo", choices=ZOOS, nargs="+", default=list(ZOOS), help="zoos to crawl (all)")
    parser.add_argument(
        "--mark", action="store_true", help="crawl nothing: mark the evaluation networks in --output anew"
    )
    parser.add_argument(
        "--failures", action="store_true", help="print every network that failed and its error"
    )
    options = parser.parse_args(argv)
    started = time.monotonic()
    if options.mark:
        write_zoo_table(marked(read_zoo_table(options.output), evaluation_networks()), options.output)
        return
    with without_warnings():
        networks, missing = installed({zoo: ZOOS[zoo] for zoo in options.zoo})
        watched = track(networks, "crawling", console=Console(stderr=True))
        found = crawl(watched, evaluation_networks())
    write_zoo_table(found.rows, options.output)
    for zoo, reason in missing.items():
        print(f"left out {zoo}, which is not installed: {reason}")
    print(f"{options.output}: {len(found.rows)} operators of {found.networks} networks", end="")
    print(f" in {time.monotonic() - started:.0f} s; {found.repeated} networks repeat another", end="")
    print(f", {len(found.failed)} did not run")
    for operator, count in Counter(row.settings.operator for row in found.rows).items():
        print(f"  {operator}: {count}")
    for reason, count in found.skipped.items():
        print(f"  not in the table: {count} calls, {reason}")
    for name, share in common_shares(found.rows).items():
        print(f"  {share:.0%} of the operators of {name} occur in other networks too")
    for name, reason in found.failed.items() if options.failures else ():
        print(f"  {name}: {reason}")


if __name__ == "__main__":
    main()
