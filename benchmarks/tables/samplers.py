"""Table of samplers of tasks and of programs, by the networks that their models tune."""

from __future__ import annotations

from ..common import geometric_mean
from .contests import latency_over
from .networks import NETWORKS
from .reading import Results, markdown, not_measured, times

_TASKS = {"pgs": "prior", "random": "random", "zoo": "zoo"}
_PROGRAMS = {"ebs": "trajectory of a search", "random": "random"}
BASE = "pgs_ebs"
"""The samplers of One-Shot Tuner."""


def samplers(results: Results) -> str:
    """A row a machine and pair of samplers: ranking, and latencies over those of `BASE`."""
    found = results.of("one_shot_tuner")
    if not found:
        return not_measured("python -m benchmarks.one_shot_tuner")
    names = list(dict.fromkeys(name for one in found for name in one.values["networks"]))
    rows = []
    for result in found:
        for pair, model in result.values["models"].items():
            tasks, programs = pair.split("_")
            ratios = {
                name: latency_over(each["runs"], pair, BASE).middle
                for name, each in result.values["networks"].items()
            }
            cells = [f"{model['ranking'][metric]:.3f}" for metric in ("spearman", "top_1")]
            cells += [times(ratios[name]) if name in ratios else "-" for name in names]
            counts = [f"{model[what]:,}" for what in ("tasks", "records")]
            rows.append([result.machine, _TASKS[tasks], _PROGRAMS[programs], *counts, *cells])
            rows[-1].append(times(geometric_mean(list(ratios.values()))))
    heads = ["machine", "tasks from", "programs from", "tasks", "records", "Spearman", "top-1"]
    note = (
        "A Transformer trained on each dataset with the same settings. Spearman and top-1 are of programs of "
        "`data/networks`. Networks are tuned by One-Shot Tuner's search with 8 measured programs a task and "
        "timed side by side: latencies over those of the first row, geometric means of the runs."
    )
    return markdown([*heads, *(NETWORKS.get(name, name) for name in names), "all"], rows, note)
