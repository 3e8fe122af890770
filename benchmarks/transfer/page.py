"""Page of the transfer benchmark: curves over k for each new device, and their table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from foretune.figures import AFTER, BAD, BEFORE, HALF, MUTED, PEER, canvas, fragment
from foretune.page import Fact, Facts, Page, Plot, Plots, Table, columns, to_html
from foretune.wording import counted

METRICS = {
    "pairwise_accuracy": "pairwise accuracy",
    "spearman": "Spearman",
    "top_5": "top-5 score",
    "r2": "R2",
}
KINDS = {
    "fasor": ("fine-tuned, tasks by Fasor", AFTER, "-"),
    "k_means": ("fine-tuned, tasks by k-means", PEER, "-"),
    "random": ("fine-tuned, random tasks", BEFORE, "-"),
    "scratch": ("from scratch, tasks by Fasor", BAD, "-"),
    "none": ("no transfer", MUTED, ":"),
    "full": ("from scratch, whole pool", MUTED, "--"),
    "full_finetuned": ("fine-tuned, whole pool", AFTER, "--"),
}
"""Name and line style of each kind of model."""


def write_page(results: dict[str, Any], path: Path) -> None:
    """Writes the results of the benchmark as a self-contained page."""
    known = {target: entry for target, entry in results["targets"].items() if entry.get("summary")}
    parts = [part for target, entry in known.items() for part in _device(target, entry)]
    settings = results["settings"]
    subtitle = (
        f"Test tasks are in no pool and unknown to the source model. {' '.join(settings['train'])} | "
        f"data {settings['data_sha256'][:12]}"
    )
    path.write_text(to_html(Page("Few-shot transfer to new devices", subtitle, parts)), encoding="utf-8")


def _device(target: str, entry: dict[str, Any]) -> list[Facts | Plots | Table]:
    source = Fact("source", entry["source"], "a checkpoint") if "source" in entry else _source(entry)
    facts = [
        Fact("new device", entry["name"], target),
        source,
        Fact(
            "pool",
            counted(entry["pool_tasks"], "task"),
            f"{counted(entry['pool_records'], 'record')} to choose from",
        ),
        Fact("test", counted(entry["test_tasks"], "task"), counted(entry["test_records"], "record")),
    ]
    plots = [_curve(target, entry["summary"], metric) for metric in METRICS]
    return [Facts(facts, entry["name"]), Plots(plots), _table(target, entry["summary"])]


def _source(entry: dict[str, Any]) -> Fact:
    devices = ", ".join(entry["source_devices"])
    records = counted(entry["source_records"], "record")
    return Fact("source", counted(entry["source_tasks"], "task"), f"{records} of {devices}")


def _curve(target: str, rows: list[dict[str, Any]], metric: str) -> Plot:
    with canvas(HALF, 3.9) as figure:
        axes = figure.subplots()
        for kind, (label, colour, style) in KINDS.items():
            points = sorted((row["k"] or 0, row[metric]) for row in rows if row["kind"] == kind)
            if not points:
                continue
            means = [value["mean"] for _, value in points]
            spread = [value["deviation"] for _, value in points]
            if points[0][0] == 0:
                axes.axhline(means[0], color=colour, linestyle=style, label=label)
            else:
                ks = [k for k, _ in points]
                axes.errorbar(ks, means, spread, color=colour, label=label, marker="o", capsize=3)
        ks = sorted({row["k"] for row in rows if row["k"]})
        axes.set_xscale("log")
        axes.set_xticks(ks, [str(k) for k in ks])
        axes.minorticks_off()
        axes.grid(axis="y")
        axes.set_xlabel("tasks of the new device, k")
        axes.set_ylabel(METRICS[metric])
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, borderaxespad=0, fontsize=10)
        caption = (
            f"Mean over test tasks of {target}, and over seeds; bars are one standard deviation of the seeds."
        )
        return Plot(METRICS[metric], caption, (fragment(figure, f"{target}-{metric}", caption),))


def _best_full(rows: list[dict[str, Any]], metric: str) -> str:
    """The better of the two models of the whole pool, as the reference for the others."""
    found = {row["kind"]: row[metric]["mean"] for row in rows if row["kind"] in ("full", "full_finetuned")}
    return max(found, key=lambda kind: found[kind], default="full")


def _table(target: str, rows: list[dict[str, Any]]) -> Table:
    heads = ["model", "k", "seeds"]
    heads += [f"{name}{part}" for name in METRICS.values() for part in ("", ", of the gap", ", of full")]
    body = []
    for row in rows:
        cells = [
            KINDS[row["kind"]][0],
            str(row["k"] or "all" if row["kind"] != "none" else 0),
            str(row["seeds"]),
        ]
        for metric in METRICS:
            value = row[metric]
            best = _best_full(rows, metric)
            recovery = value.get(f"against_{best}", {})
            shares = [recovery.get("of_gap"), recovery.get("of_full")]
            cells += [f"{value['mean']:.3f}", *("-" if share is None else f"{share:.0%}" for share in shares)]
        body.append(cells)
    note = (
        "Full is the better model of the whole pool by each metric, from scratch or fine-tuned. Of the gap: "
        "the part of the way to it from no transfer, or - without a gap. Of full: the ratio to it, to which "
        "chance contributes."
    )
    return Table(f"Models for {target}", columns(*heads), body, note)
