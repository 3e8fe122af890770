"""Tables of families: accuracy by grouping, shared surrogates and planners by replay."""

from __future__ import annotations

from ..common import geometric_mean
from .networks import NETWORKS
from .reading import Results, markdown, not_measured

_GROUPINGS = {
    "operator_count": "number of operators",
    "core_operator": "core operator",
    "operator_sequence": "operator sequence",
    "loop_nest": "loop nest",
    "one": "one model for all tasks",
    "each": "one model a task",
}


def accuracy(results: Results) -> str:
    """FamilySeer's Table 2 on our records."""
    found = [one for one in results.of("families") if "accuracy" in one.values]
    if not found:
        return not_measured("python -m benchmarks.families --part accuracy")
    part = found[0].values["accuracy"]
    rows = [
        [label, str(part["families"][name]), f"{part['accuracy'][name]:.1%}"]
        for name, label in _GROUPINGS.items()
    ]
    heat = part["heat_map"]
    note = (
        "Share of the pairs of a task's held-out programs that boosted trees on MetaSchedule's features "
        f"order rightly, the mean of {len(part['figure_1'])} tasks of `data/networks`; three quarters of "
        f"each task's 40 programs train. Trees of one task alone: {heat['own task']:.1%} on that task, "
        f"{heat['same family']:.1%} on others of its core operator, {heat['other family']:.1%} on the rest."
    )
    return markdown(["trees fitted by", "models", "pairs"], rows, note)


def surrogates(results: Results) -> str:
    """Programs until near a pool's best, by surrogate."""
    found = [one for one in results.of("families") if "replay" in one.values]
    if not found:
        return not_measured("python -m benchmarks.families --part replay")
    part = found[0].values["replay"]
    rows = []
    for network, thresholds in part["surrogates"].items():
        for threshold, by_name in thresholds.items():
            own = by_name["one a task"]["mean"]
            cells = [
                f"{figures['mean']:.1f}"
                + (f" ({figures['mean'] / own:.2f}x)" if name != "one a task" else "")
                for name, figures in by_name.items()
            ]
            rows.append([NETWORKS.get(network, network), threshold, *cells])
    names = list(next(iter(next(iter(part["surrogates"].values())).values())))
    chosen = " and ".join(NETWORKS.get(name, name) for name in part["developed_on"])
    note = (
        "Programs of a task that are measured until one reaches that share of the speed of its pool's best: "
        f"means over tasks and {part['seeds']} seeds, by replay. A seed shows two thirds of each task's 40 "
        "programs in `data/networks`, which a search by other trees drew: few are near the best, and the "
        f"frozen model has not chosen them. The shared surrogate's constants were chosen on {chosen}."
    )
    return markdown(["network", "to", *names], rows, note)


def planners(results: Results) -> str:
    """Planners beside the gradient planner."""
    found = [one for one in results.of("families") if "replay" in one.values]
    if not found:
        return not_measured("python -m benchmarks.families --part replay")
    part = found[0].values["replay"]
    names = list(next(iter(part["planners"].values())))
    rows = []
    for name in names:
        each = [by_name[name] for by_name in part["planners"].values()]
        means = {
            key: geometric_mean([one[key] for one in each]) for key in ("half", "full", "programs", "seconds")
        }
        reached = sum(one["reached"] for one in each) / len(each)
        rows.append(
            [
                name,
                f"{means['half']:.3f}x",
                f"{means['full']:.3f}x",
                f"{means['programs']:.2f}x",
                f"{means['seconds']:.2f}x",
                f"{reached:.0%}",
            ]
        )
    note = (
        f"Geometric means over {len(part['planners'])} networks and {part['seeds']} seeds (3 for the values "
        "of p), by replay of `data/networks`; seconds are those of building and running when the pool was "
        "measured. The last three columns are beside the gradient planner: what it takes to reach its last "
        "latency, all that was spent where a run does not, and the share of runs that do."
    )
    heads = [
        "planner",
        "latency at half the programs, over the best",
        "at all",
        "programs",
        "seconds",
        "reached",
    ]
    return markdown(heads, rows, note)
