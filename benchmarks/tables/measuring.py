"""Tables of measurement itself: beside MetaSchedule's builder and runner, and the cost of a GPU record."""

from __future__ import annotations

import statistics

from ..common import median_spread
from .reading import Results, duration, markdown, times_spread


def measuring(results: Results) -> str:
    """Candidates a second, and the start of MetaSchedule's builder."""
    rows = []
    for result in results.of("measurement_throughput"):
        ratios = [
            (task["foretune_valid"] / task["foretune_s"]) / (task["stock_valid"] / task["stock_s"])
            for task in result.values["tasks"]
        ]
        rows.append(
            [
                "valid candidates a second against LocalBuilder and LocalRunner, on the same candidates",
                result.machine,
                f"{times_spread(median_spread(ratios))}, median of {len(ratios)} tasks",
            ]
        )
    for result in results.of("builder_start"):
        median = {name: statistics.median(each) for name, each in result.values["seconds"].items()}
        rows.append(
            [
                "a batch of programs that take no time, by LocalBuilder with `initializer=prepare_builder`",
                result.machine,
                f"{duration(median['prepared'])}, {duration(median['as it is'])} without it; a build may "
                "take 30 s by default",
            ]
        )
    return markdown(["what", "machine", "measured"], rows)


_WAYS = {"nvrtc": "NVRTC", "nvcc": "nvcc"}


def gpu_generation(results: Results) -> str:
    """CPU seconds of a record of a dry run for a GPU, and the use of the cores."""
    rows = []
    for result in results.of("gpu_generation"):
        for run in result.values["runs"]:
            settings = dict(setting.split("=", 1) for setting in run["settings"])
            of = run["run"]
            stages = sorted(of["cpu_s"].items(), key=lambda stage: -stage[1])
            rows.append(
                [
                    result.machine,
                    run["dtype"],
                    settings.get("program_sampling.sampler", "evolutionary"),
                    _WAYS[result.values["compiler"]],
                    f"{of['valid']} of {of['measured']}",
                    f"{run['cpu_s_per_valid_record']:.2f}",
                    ", ".join(f"{name} {seconds / max(1, of['valid']):.2f}" for name, seconds in stages),
                    f"{run['busy']:.0%}",
                    f"{run['wanted']:.0%}",
                    f"{run['first_line_s']:.0f} s",
                ]
            )
    columns = ["machine", "type", "sampler", "compiler", "valid records", "CPU s per valid record"]
    return markdown([*columns, "by stage", "cores used", "cores wanted", "first line"], rows)
