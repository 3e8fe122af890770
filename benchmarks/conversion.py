"""CPU seconds from a network to its tasks, for this checkout and an earlier one in turns.

    python -m benchmarks.conversion --against ../before

Each network is loaded, converted and searched for tasks in a process of its own, without a cache. The CPU
seconds of that process count, so that other work on the machine disturbs little. Imports do not count.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from .checkouts import commit_of, python_in
from .common import ROOT, argument_parser, geometric_mean, in_turns, start, this_machine, write_result
from .rivals.__main__ import NETWORKS

LIMIT_S = 1800.0

CODE = """
import foretune, json, resource, sys
from importlib import import_module
from pathlib import Path

package = Path(foretune.__file__).parent
rooms = [room for room in ("compiler", "dataset") if (package / room / "networks").is_dir()]
networks = import_module(f"foretune.{rooms[0]}.networks")
target = import_module(f"foretune.{rooms[0]}.tvm_compat.targets").parse_target("llvm")
networks.load_network, networks.to_relax, networks.extract_tasks  # imports happen here
import torch.export, tvm.relax.frontend.torch

def seconds():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)

name, began = sys.argv[1], seconds()
network = networks.load_network(name)
loaded = seconds()
module = networks.to_relax(network, target)
lowered = seconds()
tasks = networks.extract_tasks(module, target, name)
ended = seconds()
print(json.dumps({"load": loaded - began, "convert": lowered - loaded, "tasks": ended - lowered,
                  "cpu_s": ended - began, "found": len(tasks)}))
"""


def converted(checkout: Path, network: str) -> dict[str, Any]:
    """CPU seconds of a network's conversion in a checkout, by step. Raises the errors of `python_in`."""
    printed = python_in(checkout, ["-c", CODE, network], timeout_s=LIMIT_S)
    return dict(json.loads(printed.splitlines()[-1]))


def ratio(runs: Sequence[Mapping[str, Any]]) -> float:
    """Geometric mean over networks of this checkout's median over the earlier one's."""
    networks = dict.fromkeys(run["network"] for run in runs)
    medians = {
        (network, name): median(run[name]["cpu_s"] for run in runs if run["network"] == network)
        for network in networks
        for name in ("before", "now")
    }
    return geometric_mean([medians[network, "now"] / medians[network, "before"] for network in networks])


def arguments_of(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Options of the command line."""
    parser = argument_parser(__name__)
    add = parser.add_argument
    add("--against", type=Path, metavar="CHECKOUT", required=True, help="the earlier checkout")
    add("--networks", nargs="+", default=NETWORKS, help="(%(default)s)")
    add("--runs", type=int, default=3, help="of each (%(default)s)")
    return parser.parse_args(words)


def main() -> None:
    """Entry of `python -m benchmarks.conversion`."""
    arguments = arguments_of()
    begun, found = start(), []
    checkouts = {"before": arguments.against, "now": ROOT}
    for turn, network in in_turns(arguments.networks, arguments.runs):
        order = sorted(checkouts, reverse=bool(turn % 2))
        run: dict[str, Any] = {name: converted(checkouts[name], network) for name in order}
        found.append({"network": network, **run})
        print(f"{network}: {run['before']['cpu_s']:.1f} to {run['now']['cpu_s']:.1f} CPU s", flush=True)
    result = {"before": commit_of(arguments.against), "cpu_s_ratio": ratio(found), "runs": found}
    write_result("conversion", result, begun, this_machine(), results=arguments.out)


if __name__ == "__main__":
    main()
