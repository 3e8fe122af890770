"""Crawls model zoos for operator settings: `python -m foretune.dataset.zoo.crawl`.

One-Shot Tuner (section 4.1.1) takes its prior over tasks from public model zoos. Networks are built on the
`meta` device, so nothing is downloaded, no weight has memory, and a forward pass only passes shapes. A zoo
that is not installed is named and left out.
"""

from __future__ import annotations

import argparse
import logging
import re
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import track

from ..operators import OperatorSettings
from .networks import ZOOS, evaluation_networks
from .operator_log import NetworkFactory, log_operators
from .table import MAX_EXAMPLES, ZOO_TABLE, ZooRow, common_shares, write_zoo_table

NOT_COUNTED = re.compile(r"resnet[a-z]*18(?!\d)|mobilenet_?v2|bert_base|transformers\.Bert[A-Z]")
"""Networks that benchmarks tune and their variants (other widths, attention blocks between the same
convolutions): they do not count, or the prior would follow what it is tested on."""

RELABELLED = re.compile(r"_(cifar100|svhn|cub)$")
"""Variants that differ from another network only in the number of classes; they would count it twice."""

Networks = Iterable[tuple[str, NetworkFactory]]


@dataclass(frozen=True)
class Crawl:
    """What a crawl found."""

    rows: list[ZooRow]
    networks: int
    repeated: int
    """Networks that call what one before them does: an architecture is in more than one zoo."""
    failed: Mapping[str, str]
    """Networks that did not run on the meta device, and why."""
    skipped: Mapping[str, int]
    """Calls of operators that have no settings class, by reason."""


def crawl(networks: Networks, evaluation: Networks = ()) -> Crawl:
    """Logs the networks, and marks the operators that an `evaluation` network has; rows in a fixed order.

    Of `networks`, those of NOT_COUNTED and RELABELLED are passed over, and those whose calls are all those of
    a network before them or of an evaluation network.
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
        except Exception as error:  # whatever a network of a zoo raises on shapes without values
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
    rows.sort(key=lambda r: (r.settings.operator, -r.networks, r.settings.label, r.settings.epilogue))
    return Crawl(rows, crawled, repeated, failed, skipped)


def installed(
    zoos: Mapping[str, Callable[[], Iterator[tuple[str, NetworkFactory]]]],
) -> tuple[list[tuple[str, NetworkFactory]], dict[str, str]]:
    """Networks of all zoos that can be imported, and why the others cannot."""
    found: list[tuple[str, NetworkFactory]] = []
    missing: dict[str, str] = {}
    for zoo, networks in zoos.items():
        try:
            found += networks()
        except (ImportError, RuntimeError) as error:  # torchvision of another build raises the second
            missing[zoo] = str(error).partition("\n")[0]
    return found, missing


def main(argv: Sequence[str] | None = None) -> None:
    """Writes the table and says what it holds."""
    parser = argparse.ArgumentParser(prog="python -m foretune.dataset.zoo.crawl", description=__doc__)
    parser.add_argument("--output", type=Path, default=ZOO_TABLE, help="CSV file to write (%(default)s)")
    parser.add_argument("--zoo", choices=ZOOS, nargs="+", default=list(ZOOS), help="zoos to crawl (all)")
    parser.add_argument("--failures", action="store_true", help="name every network that failed, and why")
    options = parser.parse_args(argv)
    warnings.simplefilter("ignore")  # of zoos about their own networks
    logging.disable(logging.WARNING)
    started = time.monotonic()
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
