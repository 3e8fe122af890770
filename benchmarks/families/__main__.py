"""FamilySeer's families, surrogates and foresee tuning on this project's records, by replay, and live.

    python -m benchmarks.families --part accuracy
    python -m benchmarks.families --part replay
    python -m benchmarks.families --part live --seeds 3
    python -m benchmarks.families --part live --seeds 3 --searches "stock, gradient" "stock, foresee"

The first two parts compute on records and time nothing. The third tunes networks from an empty database:
Foretune's planners, and MetaSchedule's own search with its scheduler and with Algorithm 1. The two schedulers
of a network measure equally many programs; the table also compares them at equal seconds. A run of stock's
search takes 15 to 60 minutes and cannot be continued, so `--limit-s` begins no further one. Complete runs are
kept in `outputs/benchmarks/families` until the commit changes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..checkouts import commit_of
from ..common import (
    ROOT,
    argument_parser,
    kept_run,
    machine_name,
    read_json,
    start,
    this_machine,
    write_result,
)
from ..kept_runs import Progress
from . import DEVELOPED_ON, GROUPINGS, POOL, TRIALS_A_TASK
from .pools import NetworkPool, load_pools

if TYPE_CHECKING:
    from foretune.dataset.hardware import Hardware

SCRATCH = ROOT / "outputs" / "benchmarks" / "families"


class LimitReachedError(Exception):
    """The time limit of this call has passed; completed runs are kept."""


class Keeper:
    """Runs the parts that are not kept yet for this commit and dataset, within a limit of seconds."""

    def __init__(self, limit_s: float, dataset: Path) -> None:
        self._ends = time.monotonic() + limit_s
        self.progress = Progress()
        self._settings = {"commit": commit_of(ROOT), "dataset": str(dataset.resolve())}

    def __call__(self, name: str, settings: Mapping[str, Any], make: Callable[[], Any]) -> Any:
        def made() -> Any:
            if time.monotonic() > self._ends:
                raise LimitReachedError
            return make()

        path = SCRATCH / "runs" / f"{name.replace('/', '-')}.json"
        return kept_run(path, {**self._settings, **settings}, self.progress.timed(made))


def accuracy(keep: Keeper, dataset: Path) -> dict[str, Any]:
    """Table 2 and Figures 1 and 2."""
    from foretune.dataset.features.dataset import load_labelled_features
    from foretune.dataset.records.stored_tasks import stored_rows, stored_task
    from foretune.inference.families.registry import family_of

    from .accuracy import Grouped, by_grouping, heat_map, summary

    features = load_labelled_features(dataset, SCRATCH / "features" / dataset.name)
    tasks = {row.workload_hash: stored_task(row) for row in stored_rows(dataset)}
    data = Grouped(features, seed=0)
    names = np.unique(np.asarray(features.workload_hash))
    families = {
        grouping: np.array([family_of(tasks[str(name)], grouping) for name in names])
        for grouping in GROUPINGS
    }
    accuracies = keep("accuracy", {"groupings": GROUPINGS}, lambda: by_grouping(data, families))
    heat = keep("heat", {}, lambda: heat_map(data, range(len(names))))
    found = summary(accuracies, heat, families["core_operator"].tolist())
    figure = {
        str(name): {"one for all": accuracies["one"][number], "one a task": accuracies["each"][number]}
        for number, name in enumerate(names)
    }
    counts = {grouping: len(np.unique(of_task)) for grouping, of_task in families.items()}
    return {**found, "families": counts, "figure_1": figure, "figure_2": heat}


def replay(keep: Keeper, networks: list[NetworkPool], seeds: int) -> dict[str, Any]:
    """Surrogates, planners and p by replay."""
    from .replay import (
        BUDGET,
        PLANNERS,
        PROPORTIONS,
        SURROGATE,
        SURROGATES,
        planner_row,
        planner_unit,
        surrogate_table,
        surrogate_unit,
    )

    constants = _constants()

    def surrogate(network: NetworkPool, seed: int, name: str) -> Any:
        settings = {**SURROGATE, "stop": asdict(SURROGATE["stop"]), **SURROGATES[name], **constants}
        label = f"surrogate-{network.name}-{name}-{seed}"
        return keep(label, settings, lambda: surrogate_unit(network, seed, name))

    def planner(network: NetworkPool, seed: int, name: str, more: Mapping[str, Any]) -> Any:
        settings = {**BUDGET, **more, **constants}
        return keep(
            f"planner-{network.name}-{name}-{seed}", settings, lambda: planner_unit(network, seed, more)
        )

    found: dict[str, Any] = {"surrogates": surrogate_table(networks, range(seeds), surrogate)}
    rows: dict[str, Any] = {}
    for network in networks:
        runs = {
            name: [planner(network, seed, name, more) for seed in range(seeds)]
            for name, more in PLANNERS.items()
        }
        rows[network.name] = {name: planner_row(run, runs["gradient"]) for name, run in runs.items()}
        for p in PROPORTIONS:
            more = {"planner": {"name": "foresee", "proportion": p}}
            swept = [planner(network, seed, f"foresee-{p}", more) for seed in range(min(seeds, 3))]
            rows[network.name][f"foresee, p={p}"] = planner_row(swept, runs["gradient"][: len(swept)])
    return {**found, "planners": rows, "seeds": seeds, "developed_on": DEVELOPED_ON}


def _constants() -> dict[str, float]:
    from foretune.inference.surrogate import gaussian_process, residual, shared

    return {
        "across": gaussian_process.ACROSS,
        "level": gaussian_process.LEVEL,
        "trust": residual.TRUST,
        "sibling_programs": shared.SIBLING_PROGRAMS,
    }


def main() -> None:
    """Runs one part and writes the available results of all parts."""
    parser = argument_parser(__name__)
    parser.add_argument("--part", choices=("accuracy", "replay", "live"), required=True)
    parser.add_argument("--dataset", type=Path, default=ROOT / POOL, help="pool of networks to replay")
    parser.add_argument("--seeds", type=int, default=10, help="(%(default)s)")
    parser.add_argument("--networks", nargs="*", help="networks of the pool, or to tune live; default all")
    parser.add_argument("--searches", nargs="*", help="of the part live; default all")
    parser.add_argument("--extend", action="store_true", help="of the part live: add seeds to committed runs")
    parser.add_argument(
        "--trials", type=int, default=TRIALS_A_TASK, help="programs a task of stock's search (%(default)s)"
    )
    parser.add_argument("--limit-s", type=float, default=float("inf"), help="stop after so many seconds")
    arguments = parser.parse_args()
    begun, keep = start(), Keeper(arguments.limit_s, arguments.dataset)
    try:
        if arguments.part == "accuracy":
            found, hardware = accuracy(keep, arguments.dataset), _device_of(arguments.dataset)
            found["pool"] = {"dataset": arguments.dataset.name}
        elif arguments.part == "replay":
            networks = load_pools(arguments.dataset, SCRATCH / f"rated-{arguments.dataset.name}.npz")
            chosen = [one for one in networks if not arguments.networks or one.name in arguments.networks]
            found, hardware = replay(keep, chosen, arguments.seeds), chosen[0].pool.hardware
            found["pool"] = _pool_of(arguments.dataset, chosen)
        else:
            from .live import NETWORKS, asked, live

            hardware = this_machine()
            known = known_parts(hardware, arguments.out).get("live", {})
            networks, searches = arguments.networks or NETWORKS, arguments.searches or ()
            ours, schedulers = asked(searches)
            keep.progress.expect(len(networks) * arguments.seeds * (bool(ours) + len(schedulers)))
            earlier = known if arguments.extend else {}
            libraries = SCRATCH / "libraries"
            found = live(keep, networks, arguments.seeds, searches, libraries, earlier, arguments.trials)
            found = beside(known, found)
    except LimitReachedError:
        print("the limit is reached; the same command goes on")
        return
    parts = {**known_parts(hardware, arguments.out), arguments.part: found}
    write_result(
        "families",
        parts,
        begun,
        hardware,
        notes="accuracy and replay use the machine's records; another one may have computed on them",
        results=arguments.out,
    )


def known_parts(hardware: Hardware, results: Path) -> dict[str, Any]:
    """Result of a machine in a folder of results, empty if it does not exist."""
    known = results / "families" / machine_name(asdict(hardware)) / "result.json"
    return read_json(known) if known.exists() else {}


def beside(known: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """Live runs by network: the new ones, and older ones that were not repeated."""
    return {network: {**known.get(network, {}), **found.get(network, {})} for network in {**known, **found}}


def _pool_of(dataset: Path, networks: list[NetworkPool]) -> dict[str, Any]:
    """Name of a dataset, and the median number of programs of a task."""
    counts = [len(one.rated[task.workload_hash]) for one in networks for task in one.tasks]
    return {"dataset": dataset.name, "programs": int(np.median(counts))}


def _device_of(dataset: Path) -> Any:
    from foretune.dataset.records.program_pool import ProgramPool

    return ProgramPool(dataset).hardware


if __name__ == "__main__":
    main()
