"""Tables of families: accuracy by grouping, shared surrogates and planners by replay, and live searches."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from ..common import geometric_mean, geometric_spread
from ..families import BASE, REUSE, THREE_QUARTERS
from .contests import CONTEST_HEADS, NEAR, contest_ratios, contest_rows, seconds_to
from .networks import NETWORKS
from .reading import Result, Results, markdown, not_measured, times, times_spread

_GROUPINGS = {
    "operator_count": "number of operators",
    "core_operator": "core operator",
    "operator_sequence": "operator sequence",
    "loop_nest": "loop nest",
    "one": "one model for all tasks",
    "each": "one model a task",
}

_RIVAL = "gradient"
"""Planner that others are compared with by replay."""

_BY_SHARES = "shares"
"""Planner that ends by itself, so that its search takes other seconds than those of the others."""

_STOCK_RIVAL = "stock, gradient"

_STOCK = {
    "stock, foresee": "foresee (Algorithm 1)",
    "stock, foresee, fading": "foresee, `fade=0.5`",
}
"""Schedulers of stock's search beside its own."""

_WITH_ALL = "headroom, reuse, shared"
"""Live search with everything that families add."""

_COMPARED = (
    ("gradient", BASE),
    ("foresee", BASE),
    ("headroom", BASE),
    (REUSE, BASE),
    (_WITH_ALL, BASE),
    (_WITH_ALL, REUSE),
)
"""Live searches, and what each is beside."""

_FIRST_POOL = {"dataset": "networks", "programs": 40}
"""Pool of results that do not name theirs."""


def accuracy(results: Results) -> str:
    """FamilySeer's Table 2 on our records."""
    found = [one for one in results.of("families") if "accuracy" in one.values]
    if not found:
        return not_measured("python -m benchmarks.families --part accuracy")
    rows = [
        [_dataset(one, "accuracy"), label, str(part["families"][name]), f"{part['accuracy'][name]:.1%}"]
        for one in found
        for part in [one.values["accuracy"]]
        for name, label in _GROUPINGS.items()
    ]
    heats = "; ".join(
        f"{_dataset(one, 'accuracy')}: {heat['own task']:.1%} on that task, {heat['same family']:.1%} on "
        f"others of its core operator, {heat['other family']:.1%} on the rest"
        for one in found
        for heat in [one.values["accuracy"]["heat_map"]]
    )
    note = (
        "Share of the pairs of a task's held-out programs that boosted trees on MetaSchedule's features "
        "order rightly, the mean over tasks; three quarters of each task's programs train. Trees of one task "
        f"alone order, {heats}."
    )
    return markdown(["records", "trees fitted by", "models", "pairs"], rows, note)


def surrogates(results: Results) -> str:
    """Programs until near a pool's best, by surrogate."""
    found = _replayed(results)
    if not found:
        return not_measured("python -m benchmarks.families --part replay")
    rows = []
    for result in found:
        part = result.values["replay"]
        for network, thresholds in part["surrogates"].items():
            for threshold, by_name in thresholds.items():
                own = by_name["one a task"]["mean"]
                cells = [
                    f"{figures['mean']:.1f}"
                    + (f" ({figures['mean'] / own:.2f}x)" if name != "one a task" else "")
                    for name, figures in by_name.items()
                ]
                rows.append([_dataset(result), NETWORKS.get(network, network), threshold, *cells])
    part = found[0].values["replay"]
    names = list(next(iter(next(iter(part["surrogates"].values())).values())))
    chosen = " and ".join(NETWORKS.get(name, name) for name in part["developed_on"])
    pools = "; ".join(
        f"{_dataset(one)}: {_pool(one)['programs']} programs, {one.values['replay']['seeds']} seeds"
        for one in found
    )
    note = (
        "Programs of a task that are measured until one reaches that share of the speed of its pool's best: "
        f"means over tasks and seeds, by replay. A seed shows two thirds of each task's programs ({pools}). "
        f"The shared surrogate's constants were chosen on {chosen}."
    )
    return markdown(["records", "network", "to", *names], rows, note)


def planners(results: Results) -> str:
    """Planners beside the gradient planner."""
    found = _replayed(results)
    if not found:
        return not_measured("python -m benchmarks.families --part replay")
    rows = [
        [_dataset(result), *cells] for result in found for cells in _planner_rows(result.values["replay"])
    ]
    networks = "; ".join(
        f"{_dataset(one)}: {len(one.values['replay']['planners'])}, {one.values['replay']['seeds']} seeds"
        for one in found
    )
    note = (
        f"Geometric means over the networks ({networks}) and seeds (3 for the values of p), by replay; "
        "seconds are those of building and running when the pool was measured. The last three columns are "
        "beside the gradient planner: what it takes to reach its last latency, all that was spent where a "
        "run does not, and the share of runs that do."
    )
    heads = [
        "records",
        "planner",
        "latency at half the programs, over the best",
        "at all",
        "programs",
        "seconds",
        "reached",
    ]
    return markdown(heads, rows, note)


def _planner_rows(part: Mapping[str, Any]) -> Iterator[list[str]]:
    for name in next(iter(part["planners"].values())):
        each = [by_name[name] for by_name in part["planners"].values()]
        means = {
            key: geometric_mean([one[key] for one in each]) for key in ("half", "full", "programs", "seconds")
        }
        reached = sum(one["reached"] for one in each) / len(each)
        yield [
            name,
            f"{means['half']:.3f}x",
            f"{means['full']:.3f}x",
            f"{means['programs']:.2f}x",
            f"{means['seconds']:.2f}x",
            f"{reached:.0%}",
        ]


def _replayed(results: Results) -> list[Result]:
    return [one for one in results.of("families") if "replay" in one.values]


def _pool(result: Result, part: str = "replay") -> Mapping[str, Any]:
    return result.values[part].get("pool", _FIRST_POOL)


def _dataset(result: Result, part: str = "replay") -> str:
    return f"`data/{_pool(result, part)['dataset']}`"


def live(results: Results) -> str:
    """Foretune's searches on a device, beside the default one without reuse."""
    found = _with_live(results, "runs")
    if not found:
        return not_measured("python -m benchmarks.families --part live")
    note = (
        "Ratios to the planner by latency share without reuse, geometric means with the least and the most "
        "of runs from an empty database. `gradient`, `foresee` and `headroom` have a budget of its "
        "seconds, with reuse three quarters of those of `shares, reuse`, which count from the start of the "
        "command; planning by shares stops by itself. The networks of a run are timed side by side."
    )
    return markdown(CONTEST_HEADS, list(_live_rows(found, BASE)), note)


def with_reuse(results: Results) -> str:
    """Searches that take a quarter off the time that reuse leaves, by headroom and shared surrogates."""
    rows = list(_live_rows(_with_live(results, "runs"), REUSE, THREE_QUARTERS))
    if not rows:
        return not_measured(
            f'python -m benchmarks.families --part live --searches "{REUSE}" "{THREE_QUARTERS}"'
        )
    note = (
        "`headroom` with reuse and shared surrogates, in three quarters of the seconds that the search of "
        "`shares, reuse` takes: ratios to that one, of runs from an empty database. The networks of a run "
        "are timed side by side."
    )
    return markdown(CONTEST_HEADS, rows, note)


def _live_rows(found: Sequence[Result], base: str, *names: str) -> Iterator[list[str]]:
    """Rows of each network's runs beside `base`, of `names` alone where there are some."""
    for result in found:
        for network, part in result.values["live"].items():
            runs = [run for run in part.get("runs", ()) if {base, *names} <= run.keys()]
            for search, *cells in contest_rows(runs, base):
                if not names or search in names:
                    yield [result.machine, NETWORKS.get(network, network), search, *cells]


def live_means(results: Results) -> str:
    """Searches over all networks, beside the default one without reuse, and both with reuse."""
    found = _with_live(results, "runs")
    if not found:
        return not_measured("python -m benchmarks.families --part live")
    machines = {one.machine: one.values["live"] for one in found}
    networks = dict.fromkeys(name for live in machines.values() for name in live)
    pooled = {name: [run for live in machines.values() for run in _runs(live, name)] for name in networks}
    each = {machine: {name: _runs(live, name) for name in live} for machine, live in machines.items()} | {
        "all": pooled
    }
    rows = [
        [search, base, machine, *cells]
        for search, base in _COMPARED
        for machine, by_network in each.items()
        if (cells := _mean_cells(by_network, search, base))
    ]
    note = (
        "Geometric means over networks, each the geometric mean of its runs; latencies with the least and "
        f"the most of a network. `{_WITH_ALL}` beside `{REUSE}` has three quarters of its seconds."
    )
    heads = ["search", "beside", "machine", "networks", "runs", "programs", "search takes", "latency"]
    return markdown(heads, rows, note)


def _runs(live: Mapping[str, Any], network: str) -> list[Mapping[str, Any]]:
    return list(live.get(network, {}).get("runs", ()))


def _mean_cells(by_network: Mapping[str, Sequence[Mapping[str, Any]]], search: str, base: str) -> list[str]:
    """Networks and runs that have both searches, and ratios of programs, seconds and latency."""
    of_both = {
        name: [run for run in runs if {search, base} <= run.keys()] for name, runs in by_network.items()
    }
    of_both = {name: runs for name, runs in of_both.items() if runs}
    if not of_both:
        return []
    ratios = [contest_ratios(runs, search, base) for runs in of_both.values()]
    programs, seconds, latency = (
        geometric_spread([spread.middle for spread in each]) for each in zip(*ratios, strict=True)
    )
    counts = [str(len(of_both)), str(sum(map(len, of_both.values())))]
    return [*counts, times(programs.middle), times(seconds.middle), times_spread(latency)]


def predicted(results: Results) -> str:
    """Planners by replay, beside their live runs."""
    rows, pairs = [], []
    for replay in _replayed(results):
        for network, by_name in replay.values["replay"]["planners"].items():
            for result in _with_live(results, "runs"):
                runs = result.values["live"].get(network, {}).get("runs", ())
                for name in by_name:
                    of_both = [run["side_by_side_s"] for run in runs if {name, _RIVAL} <= set(run)]
                    if name in (_RIVAL, _BY_SHARES) or not of_both:
                        continue
                    said = by_name[name]["full"] / by_name[_RIVAL]["full"]
                    found = geometric_mean([latency[name] / latency[_RIVAL] for latency in of_both])
                    pairs.append((said, found))
                    cells = [name, f"{said:.3f}x", f"{found:.3f}x", str(len(of_both))]
                    rows.append([_dataset(replay), result.machine, NETWORKS.get(network, network), *cells])
    if not rows:
        return not_measured("python -m benchmarks.families --part live")
    said, live_ones = (max(abs(one - 1) for one in each) for each in zip(*pairs, strict=True))
    apart = median(abs(math.log(found / by_replay)) for by_replay, found in pairs)
    note = (
        f"Latency of the network over that of the `{_RIVAL}` planner. Replay has equal programs and no "
        "templates; live searches have equal seconds, and their networks are timed. By replay planners are "
        f"up to {said:.1%} apart, live up to {live_ones:.1%}; replay and live differ by {apart:.1%} by the "
        "median."
    )
    return markdown(["records", "machine", "network", "planner", "by replay", "live", "runs"], rows, note)


def stock(results: Results) -> str:
    """FamilySeer's scheduler and cost model in stock's search, beside its gradient scheduler."""
    rows = []
    for result in _with_live(results, "stock"):
        for network, part in result.values["live"].items():
            if not part.get("stock"):
                continue
            for name, label in _STOCK.items():
                pairs = [(run[name], run[_STOCK_RIVAL]) for run in part["stock"] if name in run]
                alike = [pair for pair in pairs if pair[0]["left_out"] == pair[1]["left_out"]]
                if not alike:
                    continue
                last = [run["curve"][-1][1] / rival["curve"][-1][1] for run, rival in alike]
                cells = [_seconds_to(alike, slack) for slack in (NEAR, 1.0)]
                cells.append(times_spread(geometric_spread(last)))
                rows.append([result.machine, NETWORKS.get(network, network), label, str(len(alike)), *cells])
    if not rows:
        return not_measured("python -m benchmarks.families --part live")
    note = (
        "Foresee tuning with trees a family beside the gradient scheduler, both of MetaSchedule's search: "
        "128 programs a task in rounds of 64. Seconds until the gradient scheduler's last latency, or near "
        "it, over its own seconds until then; all that was spent where it is not reached. Latencies are sums "
        "over the tasks."
    )
    near = f"seconds to {times(NEAR)} of the last latency"
    heads = ["machine", "network", "scheduler", "runs", near, "seconds to it", "last latency"]
    return markdown(heads, rows, note)


def _with_live(results: Results, kind: str) -> list[Result]:
    return [
        result
        for result in results.of("families")
        if any(part.get(kind) for part in result.values.get("live", {}).values())
    ]


def _seconds_to(pairs: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]], slack: float) -> str:
    """Seconds to `slack` times a rival's last latency over the rival's, and how many runs come there."""
    ratios, reached = [], 0
    for pair in pairs:
        goal_s = slack * pair[1]["curve"][-1][1]
        own, of_rival = (seconds_to(one["curve"], goal_s) for one in pair)
        reached += own is not None
        ratios.append((pair[0]["curve"][-1][0] if own is None else own) / of_rival)
    return f"{times_spread(geometric_spread(ratios))}, {reached} of {len(pairs)}"
