"""Tables of the campaign on a GPU: what was measured, records, networks, cost models, FamilySeer in stock."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from ..campaign.stages import STAGES
from ..campaign.workspace import Workspace
from ..common import geometric_mean
from .models import ALL, MODELS, cells, in_order
from .networks import NETWORKS
from .reading import Results, duration, markdown, milliseconds, not_measured, read_result, times

COMMAND = "python benchmarks/gpu_campaign.py next --stage"


def stages(results: Results) -> str:
    """One row a step: its result, or that it was not measured."""
    workspace = Workspace(work=results.root / "none", results=results.root)
    rows = []
    for stage in STAGES.values():
        for number, step in enumerate(stage.steps):
            found = [
                read_result(one.folder) for one in workspace.found(step.benchmark, step.variant, step.device)
            ]
            state = step.state(workspace)
            told = "not measured" if state is None else f"in part: lacks {state}" if state else "measured"
            where = ", ".join(f"{one.path} ({one.date})" for one in found) or f"`{COMMAND} {stage.name}`"
            about = ["", ""] if number else [stage.name, stage.question]
            rows.append([*about, step.name, told, where])
    heads = ["stage", "question", "step", "state", "result, or the command that measures it"]
    return markdown(
        heads, rows, "In the order of their worth. A step is measured if its result file is there."
    )


def records(results: Results) -> str:
    """One row a dataset that a GPU measured."""
    rows = []
    for result in results.of("gpu_records"):
        values = result.values
        rate = "-" if values["valid_a_minute"] is None else f"{values['valid_a_minute']:,.0f}"
        samplers = ", ".join(f"`{name}`" for name in values["samplers"])
        rows.append(
            [
                *(result.machine, f"`data/gpu-{result.manifest['variant']}`", samplers),
                *(f"{values[name]:,.0f}" for name in ("tasks", "programs_a_task", "rounds_a_task")),
                *(f"{values['valid']:,} of {values['records']:,}", f"{values['goal']:,}", rate, result.date),
            ]
        )
    if not rows:
        return not_measured(f"{COMMAND} records")
    heads = ["machine", "dataset", "sampler", "tasks", "valid programs a task", "rounds a task"]
    heads += ["valid records", "goal", "valid a minute", "date"]
    return markdown(heads, rows, "Medians over tasks. Pauses of a minute or more do not count in the rate.")


def networks(results: Results) -> str:
    """One row a network and data type; medians over seeds."""
    shown = ("checkpoint=cuda", "checkpoint=null", "stock", "stock, long")
    rivals = ("inductor", "inductor_max_autotune", "eager")
    rows, policies = [], []
    for result in results.of("gpu_networks"):
        policies.append(str(result.values["policy"]))
        by_network: dict[str, list[Mapping[str, Any]]] = {}
        for row in result.values["rows"]:
            by_network.setdefault(row["network"], []).append(row)
        for network, of in by_network.items():
            first = [row for row in of if row["contestant"] == shown[0]]
            about = [result.machine, NETWORKS.get(network, network), result.values["dtype"], str(len(first))]
            found = [_contestant(of, name) for name in (*shown, *rivals)]
            rows.append([*about, *found, _lead(of)])
    if not rows:
        return not_measured(f"{COMMAND} networks")
    heads = ["machine", "network", "type", "runs", *(f"`{name}`" for name in shown[:2]), *shown[2:]]
    heads += ["torch.compile", "max-autotune", "eager", "best of PyTorch over `checkpoint=cuda`"]
    note = (
        "Median latency over the runs; in brackets measured programs and the time to a runnable network. "
        f"{'; '.join(dict.fromkeys(policies))}."
    )
    return markdown(heads, rows, note)


def _contestant(rows: Sequence[Mapping[str, Any]], name: str) -> str:
    mine = [row for row in rows if row["contestant"] == name and _latency(row) is not None]
    if not mine:
        return "-"
    shown = milliseconds(statistics.median(row["latency_s"] for row in mine))
    measured = [row["measured"] for row in mine if row["measured"] is not None]
    about = [f"{statistics.median(measured):,.0f}"] if measured else []
    ready = [row["ready_s"] for row in mine if row["ready_s"] is not None]
    about += [duration(statistics.median(ready))] if ready else []
    return f"{shown} ({', '.join(about)})" if about else shown


def _latency(row: Mapping[str, Any]) -> float | None:
    """Seconds from which a figure may be claimed, else None."""
    return None if row["disturbed"] or row["error"] else row["latency_s"]


def _lead(rows: Sequence[Mapping[str, Any]]) -> str:
    """Geometric mean over seeds of PyTorch's best latency over the tuned network's."""
    ratios = []
    for seed in {row["seed"] for row in rows}:
        known = {row["contestant"]: _latency(row) for row in rows if row["seed"] == seed}
        ours = known.get("checkpoint=cuda")
        theirs = [
            latency_s
            for name, latency_s in known.items()
            if latency_s is not None and not name.startswith(("checkpoint", "stock"))
        ]
        if ours is not None and theirs:
            ratios.append(min(theirs) / ours)
    return times(geometric_mean(ratios)) if ratios else "-"


def models(results: Results) -> str:
    """Models of the campaign's records, on held-out tasks and on held-out networks."""
    rows, notes = [], []
    for variant, label in {
        "campaign": "all",
        "campaign-ebs": "programs of a search",
        "campaign-random": "random programs",
    }.items():
        for result in results.of("cost_models", variant):
            (table,) = result.values["tables"]
            notes.append(f"{label}: {table['title']}")
            for name in in_order(table["by_task"]["models"]):
                of, whole = (table[part]["models"].get(name, {}) for part in ("by_task", "by_network"))
                seconds = "-" if of.get("seconds") is None else f"{of['seconds']:.0f} s"
                device = result.values.get("trained_on") or result.machine
                rows.append(
                    [
                        *(label, MODELS.get(name, name), device, seconds),
                        *cells(of, "spearman", "pairwise_accuracy", "top_1"),
                        *cells(whole, "spearman", "pairwise_accuracy"),
                        *cells(whole.get("networks", {}).get(ALL, {}), "top_1_sums"),
                    ]
                )
    if not rows:
        return not_measured(f"{COMMAND} models")
    heads = ["records", "model", "trained on", "trained in", "held-out tasks: Spearman", "pairs", "top-1"]
    heads += ["held-out networks: Spearman", "pairs", "top-1, ratio of sums"]
    return markdown(heads, rows, " ".join(notes))


def families(results: Results) -> str:
    """FamilySeer's Algorithm 1 in stock MetaSchedule on a GPU."""
    rows = []
    for result in results.of("families_stock"):
        for network, runs in result.values["networks"].items():
            pairs = [
                (run["stock, gradient"]["curve"], run["stock, foresee"]["curve"])
                for run in runs
                if len(run) == 2 and all(one["curve"] for one in run.values())
            ]
            if pairs:
                last = geometric_mean([ours[-1][1] / theirs[-1][1] for theirs, ours in pairs])
                seconds = geometric_mean([ours[-1][0] / theirs[-1][0] for theirs, ours in pairs])
                about = [
                    result.machine,
                    NETWORKS.get(network, network),
                    f"{result.values['trials']}",
                    str(len(pairs)),
                ]
                rows.append([*about, times(last), times(seconds)])
    if not rows:
        return not_measured(f"{COMMAND} reuse")
    heads = ["machine", "network", "programs a task", "runs", "last latency", "seconds"]
    note = (
        "FamilySeer's scheduler and cost model over the gradient scheduler and XGBoost; sums over the tasks."
    )
    return markdown(heads, rows, note)
