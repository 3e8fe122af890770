"""Entry of `python -m benchmarks.reuse`."""

from __future__ import annotations

import argparse
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .. import reuse
from ..checkouts import commit_of
from ..common import RESULTS, ROOT, in_turns, kept_run, start, this_machine, write_result
from ..networks.__main__ import cause_of
from ..networks.runs import DisturbedError
from . import whole_networks

FAILED = (subprocess.SubprocessError, OSError, DisturbedError)


class Runs:
    """Runs of one part, each kept as soon as it is done."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self._began = time.monotonic()
        self.folder = (arguments.runs_in / arguments.part).resolve()
        self.failures: list[dict[str, Any]] = []

    @property
    def in_time(self) -> bool:
        """Whether another run may begin."""
        minutes = self._arguments.minutes
        return minutes is None or time.monotonic() - self._began <= 60 * minutes

    def kept(self, name: str, settings: dict[str, Any], make: Callable[[], Any]) -> Any:
        """The kept run of this name and these settings, or a new one; None where it failed."""
        settings = {"commit": commit_of(ROOT), **settings}
        try:
            return kept_run(self.folder / f"{name}.json", settings, make, again=self._arguments.again)
        except FAILED as error:
            cause = cause_of(error)
            self.failures.append({"run": name, "error": cause})
            print(f"{name}: failed: {cause}", flush=True)
            return None


def networks(arguments: argparse.Namespace, runs: Runs) -> dict[str, Any]:
    """Part `networks`."""
    names = arguments.networks or whole_networks.NETWORKS
    found: dict[str, list[Any]] = {name: [] for name in names}
    for seed, network in in_turns(names, arguments.runs):
        if not runs.in_time:
            break
        run = runs.kept(
            f"{network}-{seed}",
            {"network": network, "seed": seed, "overrides": arguments.overrides},
            lambda network=network, seed=seed: whole_networks.one_of_each(  # type: ignore[misc]
                network, seed, runs.folder, arguments.overrides
            ),
        )
        if run is not None:
            found[network].append(run)
            print(whole_networks.describe(network, seed, run), flush=True)
    return {"networks": {name: {"runs": each} for name, each in found.items() if each}}


PARTS = {"networks": networks}


def arguments_of(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.reuse",
        description=reuse.__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    add = parser.add_argument
    add("--part", choices=PARTS, required=True)
    add("--networks", nargs="+", help=f"of the part networks ({' '.join(whole_networks.NETWORKS)})")
    add("--runs", type=int, default=3, help="seeds of each (%(default)s)")
    add("--minutes", type=float, help="begin no run after so many")
    add("--again", action="store_true", help="run anew what is kept")
    add("--runs-in", type=Path, default=Path("outputs/benchmarks/reuse"), help="(%(default)s)")
    add("--out", type=Path, default=RESULTS, help="(%(default)s)")
    add("overrides", nargs="*", metavar="OVERRIDE", help="for foretune tune, after a --")
    return parser.parse_args(words)


def main() -> None:
    arguments = arguments_of()
    begun, runs = start(), Runs(arguments)
    result = PARTS[arguments.part](arguments, runs)
    path = write_result(
        f"reuse_{arguments.part}",
        {"part": arguments.part, "overrides": arguments.overrides, "failures": runs.failures, **result},
        begun,
        this_machine(),
        results=arguments.out,
    )
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
