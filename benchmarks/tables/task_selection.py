"""Table of which tasks teach a cost model most."""

from __future__ import annotations

from statistics import mean

from .reading import Results, markdown, not_measured

_METRICS = ("spearman", "pairwise_accuracy", "top_1")


def task_selection(results: Results) -> str:
    """A row a number of tasks and way to choose them: means over the seeds, and the spread of Spearman."""
    rows, facts = [], []
    for result in results.of("task_selection"):
        curves, tasks = result.values["curves"], result.values["tasks"]
        for number, point in enumerate(next(iter(curves.values()))[0]):
            for choice, seeds in curves.items():
                found = [seed[number] for seed in seeds]
                cells = [f"{mean(one[metric] for one in found):.3f}" for metric in _METRICS]
                spearman = [one["spearman"] for one in found]
                spread = f"{min(spearman):.3f} to {max(spearman):.3f}"
                records = f"{round(mean(one['records'] for one in found)):,}"
                rows.append([choice, str(point["tasks"]), records, *cells, spread])
        facts.append(
            f"`data/{result.values['dataset']}`, {tasks['pool']:,} tasks to choose from, {tasks['test']:,} "
            f"to test on, {len(next(iter(curves.values())))} seeds"
        )
    if not rows:
        return not_measured("python -m benchmarks.task_selection")
    heads = ["choice", "tasks", "records", "Spearman", "pairs", "top-1", "Spearman by seed"]
    note = (
        f"Mean of three boosted trees, each fitted to two thirds of the tasks; {'; '.join(facts)}. The first "
        "tasks of a seed are the same for all."
    )
    return markdown(heads, rows, note)
