"""Rows of GPUs: templates, the campaign, drawn programs, dry runs, and programs that a CPU executed."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from ..campaign.stages import STAGES
from ..campaign.workspace import Workspace
from ..gpu_templates.problems import DEPARTURES, ONE_TEXT
from .declare import table_text
from .reading import Result, Results, read_result


def templates(result: Result) -> Iterator[dict[str, Any]]:
    """Problems with the template's tiling and lead over each rival."""
    for row in result.values["problems"]:
        tiling, estimates = row["tiling"], row["estimates"]
        blocks = "x".join(str(tiling[f"block_{letter}"]) for letter in "mnk")
        parts = f", {tiling['parts']} parts" if tiling.get("parts", 1) > 1 else ""  # older results have none
        rivals = {"library": row["library_s"], "compiler": row["compiler_s"]}
        rivals["apart"] = row["apart_s"] if row["kernel"] == "back_to_back" else None
        leads = {name: seconds / row["latency_s"] for name, seconds in rivals.items() if seconds is not None}
        first = min(seconds for _, seconds in estimates) / estimates[0][1]
        yield {**row, **leads, "template": f"{blocks}, {tiling['warps']} warps{parts}", "first": first}


def templates_note(found: Sequence[Result]) -> str:
    """Departures of the problems from Bolt's, problems without a measurement, and notes of the manifests."""
    measured = {problem["name"] for result in found for problem in result.values["problems"]}
    missing = [name for name in ONE_TEXT if name not in measured]
    said = [text for name, text in DEPARTURES.items() if name in measured]
    said += [f"Not measured yet: {len(missing)} of {len(ONE_TEXT)} newer problems."] if missing else []
    return " ".join([*said, *(result.manifest["notes"] for result in found)])


def stages(results: Results) -> str:
    """Steps of the campaign: the result, or the command that measures it."""
    workspace = Workspace(work=results.root / "none", results=results.root)
    rows = []
    for stage in STAGES.values():
        for number, step in enumerate(stage.steps):
            found = [
                read_result(one.folder) for one in workspace.found(step.benchmark, step.variant, step.device)
            ]
            state = step.state(workspace)
            told = "not measured" if state is None else f"in part: lacks {state}" if state else "measured"
            where = "; ".join(f"{one.path} ({one.measured})" for one in found)
            where = where or f"`python benchmarks/gpu_campaign.py next --stage {stage.name}`"
            rows.append([*(["", ""] if number else [stage.name, stage.question]), step.name, told, where])
    heads = ["stage", "question", "step", "state", "result, or the command that measures it"]
    return table_text(pd.DataFrame(rows, columns=heads))


def networks(result: Result) -> list[dict[str, Any]]:
    """Contestants that were timed without a disturbance or an error."""
    rows = [row for row in result.values["rows"] if not (row["disturbed"] or row["error"])]
    return [{**row, "dtype": result.values["dtype"]} for row in rows if row["latency_s"] is not None]


def records(result: Result) -> list[dict[str, Any]]:
    """Records of one dataset."""
    samplers = ", ".join(f"`{name}`" for name in result.values["samplers"])
    return [{**result.values, "dataset": f"`data/gpu-{result.variant}`", "samplers": samplers}]


def draws(result: Result) -> pd.DataFrame:
    """Operator types of each target and data type, with the share of legal rows that pass."""
    rows = pd.DataFrame(result.values["rows"])
    return rows.assign(share=rows["passed"] / rows["replayed"].clip(lower=1))


def dry_runs(result: Result) -> Iterator[dict[str, Any]]:
    """Dry runs with their sampler and CPU seconds by stage."""
    for run in result.values["runs"]:
        settings = dict(setting.split("=", 1) for setting in run["settings"])
        spent = sorted(run["run"]["cpu_s"].items(), key=lambda stage: -stage[1])
        by_stage = ", ".join(f"{name} {seconds / max(1, run['run']['valid']):.2f}" for name, seconds in spent)
        sampler = settings.get("program_sampling.sampler", "evolutionary")
        yield {
            **run,
            "drawn_by": sampler,
            "compiler": result.values["compiler"].upper(),
            "by_stage": by_stage,
        }


# Programs that a CPU executed.

OUTCOMES = ("right", "wrong", "race", "fault", "not built")


def outcomes(*counts: Mapping[str, int]) -> str:
    """Sum of the outcomes of some programs, in words."""
    total = {name: sum(one.get(name, 0) for one in counts) for name in OUTCOMES}
    return ", ".join(f"{count} {name}" for name, count in total.items() if count) or "none"


def emulated(result: Result) -> Iterator[dict[str, str]]:
    """Outcomes of programs, and defects made on purpose that were noticed."""
    values = result.values
    if "operators" in values:
        copies = values["copies"]
        for what, counts in {
            "random programs of all operator types, two orders of threads": [*values["operators"].values()],
            "programs of the reuse tuner, a pair of each of ETO's types": [*values["tuner"].values()],
            "matrix products that the check of copies accepts": [copies["accepted"]],
            "matrix products that the check of copies refuses": [copies["refused"]],
        }.items():
            yield {"programs": what, "outcome": outcomes(*counts)}
        for name, counts in values["removals"].items():
            tracer, value, either = (counts.get(f"by_{by}", 0) for by in ("tracer", "value", "either"))
            found = (
                f"{either} of {counts.get('removed', 0)} noticed: by the tracer {tracer}, by a wrong result"
            )
            found = f"{found} {value}"
            yield {"programs": f"{name} removed from matrix products, one at a time", "outcome": found}
    for name, counts in values.get("tensor_cores", {}).items():
        yield {"programs": f"tensor cores: {name}", "outcome": outcomes(counts)}


def costs(result: Result) -> list[dict[str, Any]]:
    """Correlation of ETO's costs with the requests of programs, task by task, and the medians."""
    found = result.values.get("costs", {})
    names = [name for name in next(iter(found.values()), {}) if name != "programs"]
    medians = {name: statistics.median(one[name] for one in found.values()) for name in names}
    return [
        *({**one, "task": name} for name, one in found.items()),
        *([{**medians, "task": "median"}] if found else []),
    ]


def ordered(result: Result) -> Iterator[dict[str, Any]]:
    """Pairs of measured programs that a cost orders correctly."""
    for alike, by_cost in result.values["ordered"].items():
        shares = {
            f"{name}_{what}": value
            for name, one in by_cost.items()
            for what, value in {**one, "share": one["right"] / one["pairs"]}.items()
        }
        yield {"alike": alike, **shares}
