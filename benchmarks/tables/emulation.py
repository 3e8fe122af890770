"""Tables of CUDA programs that were executed on a CPU."""

from __future__ import annotations

import statistics
from collections import Counter

from ..common import ROOT
from .reading import Result, Results, joined, markdown, not_measured
from .records import machines_in

GPU_RECORDS = ("data/gpu", "data/gpu-networks")
"""Datasets of results that name none."""


def programs(results: Results) -> str:
    """Outcomes by operator, and of what was broken on purpose."""
    tables = []
    for result in _with(results, "operators"):
        copies, removals = result.values["copies"], result.values["removals"]
        rows = [
            ["random programs of all operator types, two orders of threads", _all(result, "operators")],
            ["programs of the reuse tuner, a pair of each of ETO's types", _all(result, "tuner")],
            ["matrix products that the check of copies accepts", _outcomes(copies["accepted"])],
            ["matrix products that the check of copies refuses", _outcomes(copies["refused"])],
        ]
        for name, counts in removals.items():
            rows.append(
                [
                    f"{name} removed from matrix products, one at a time",
                    f"{counts.get('by_either', 0)} of {counts.get('removed', 0)} noticed: by the tracer "
                    f"{counts.get('by_tracer', 0)}, by a wrong result {counts.get('by_value', 0)}",
                ]
            )
        tables.append(markdown(["what", "outcome"], rows))
    return "\n\n".join(tables) or not_measured("python -m benchmarks.cuda_emulation")


def tensor_cores(results: Results) -> str:
    """Outcomes of programs for tensor cores, by product and instructions."""
    for result in _with(results, "tensor_cores"):
        rows = [[name, _outcomes(counts)] for name, counts in result.values["tensor_cores"].items()]
        return markdown(["random programs, two orders of threads", "outcome"], rows)
    return not_measured("python -m benchmarks.cuda_emulation --tensor-cores 24")


def _with(results: Results, part: str) -> list[Result]:
    return [result for result in results.of("cuda_emulation") if part in result.values]


def costs(results: Results) -> str:
    """Spearman correlations of ETO's costs with the counts."""
    tables = []
    for result in _with(results, "costs"):
        found = result.values["costs"]
        columns = ("sectors", "sectors_by_fetch", "sectors_unaligned", "wavefronts_once", "wavefronts")
        rows = [
            [name, str(each["programs"]), *(f"{each[column]:.2f}" for column in columns)]
            for name, each in found.items()
        ]
        medians = [statistics.median(each[column] for each in found.values()) for column in columns]
        rows.append(["median", "", *(f"{median:.2f}" for median in medians)])
        header = [
            "task",
            "programs",
            "BShape cost, sectors",
            "lines of each fetch, sectors",
            "lines of each fetch, some unaligned, sectors",
            "TShape cost, wavefronts of what a thread loads once",
            "TShape cost, all wavefronts",
        ]
        tables.append(markdown(header, rows))
    return "\n\n".join(tables) or not_measured("python -m benchmarks.cuda_emulation")


def _all(result: Result, part: str) -> str:
    total: Counter[str] = Counter()
    for outcome in result.values[part].values():
        total.update(outcome)
    return _outcomes(total)


def _outcomes(counts: Counter[str] | dict[str, int]) -> str:
    named = ("right", "wrong", "race", "fault", "not built")
    found = [f"{counts[name]} {name}" for name in named if counts.get(name)]
    return ", ".join(found) or "none"


def measured_costs(results: Results) -> str:
    """Pairs of measured programs whose faster one has the lower cost."""
    names = {"any": "nothing", "blocks": "blocks", "threads": "blocks and threads"}
    heads = ["in common", "BShape cost", "lines of each fetch", "TShape cost"]
    for result in results.of("gpu_costs"):
        rows = [
            [names[alike], *(_share(found["right"], found["pairs"]) for found in costs.values())]
            for alike, costs in result.values["ordered"].items()
        ]
        folders = result.values.get("datasets", GPU_RECORDS)
        devices = joined(list(dict.fromkeys(machines_in(ROOT / folder) for folder in folders)))
        note = (
            "Pairs of programs of a task that differ by 5 % or more: how many the cost orders rightly. "
            f"{result.values['programs']} random programs of {result.values['tasks']} tasks, on {devices}."
        )
        return markdown(heads, rows, note)
    return not_measured("python -m benchmarks.gpu_costs")


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%} of {whole:,}" if whole else "-"
