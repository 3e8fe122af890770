"""Tables of whole networks."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from ..common import Spread, geometric_mean, geometric_spread, median_spread
from .reading import Result, Results, duration, markdown, milliseconds, not_measured, times, times_spread

TUNED, EAGER = "tuned TVM", "PyTorch eager"

NETWORKS = {
    "resnet18": "ResNet-18",
    "bert_large": "BERT-large",
    "roberta_base": "RoBERTa-base",
    "mobilenetv1": "MobileNetV1",
    "mobilenetv2": "MobileNetV2",
    "bert_base": "BERT-base, 128 tokens",
    "resnet50": "ResNet-50",
    "resnext50": "ResNeXt-50",
    "resnest50": "ResNeSt-50",
    "vgg16": "VGG-16",
    "densenet121": "DenseNet-121",
    "alexnet": "AlexNet",
    "squeezenet": "SqueezeNet 1.1",
    "shufflenetv2": "ShuffleNetV2",
    "mobilenetv3_large": "MobileNetV3-Large",
    "efficientnet_b0": "EfficientNet-B0",
    "mnasnet": "MnasNet-B1",
    "mobilebert": "MobileBERT, 128 tokens",
    "vit_base": "ViT-Base",
    "gpt2": "GPT-2, 128 tokens",
    "dcgan": "DCGAN generator",
}
"""Names of networks in the order of the tables."""

Runs = Sequence[Mapping[str, Any]]


def speed(runs: Runs) -> Spread:
    """Latency of PyTorch eager over that of the tuned network: median, least and most of the runs."""
    return median_spread([run["latency_s"][EAGER] / run["latency_s"][TUNED] for run in runs])


def middle(runs: Runs, form: str) -> float:
    """Median latency in seconds of one form of the network."""
    return statistics.median(run["latency_s"][form] for run in runs)


def seconds(runs: Runs) -> Spread:
    """From start to report."""
    return median_spread([run["total_s"] for run in runs])


def in_order(result: Result) -> list[tuple[str, Runs]]:
    """Networks and their runs."""
    found = result.values["networks"]
    return [(name, found[name]["runs"]) for name in sorted(found, key=place)]


def place(name: str) -> int:
    """Place of a network in the tables; those that are not known by name come last."""
    return list(NETWORKS).index(name) if name in NETWORKS else len(NETWORKS)


def number_of_runs(results: Sequence[Result]) -> str:
    """ "3 runs", or "2 to 3 runs" where networks differ."""
    counts = sorted({len(runs) for result in results for _, runs in in_order(result)})
    return (
        f"{counts[0]} run{'s' * (counts[0] > 1)}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]} runs"
    )


def headline(results: Results) -> str:
    """One row a machine."""
    found = results.of("networks_headline")
    columns = ("resnet18", "mobilenetv2", "bert_base")
    rows = []
    for result in found:
        runs = dict(in_order(result))
        cells = [
            f"{times(speed(runs[name]).middle)} after {duration(seconds(runs[name]).middle)}"
            if name in runs
            else "-"
            for name in columns
        ]
        mean = times(geometric_mean([speed(each).middle for each in runs.values()]))
        rows.append([result.machine, result.search, *cells, mean, result.date])
    heads = ["machine", "search", *(NETWORKS[name] for name in columns), "all", "measured"]
    return markdown(
        heads,
        rows,
        f"Speed against PyTorch eager, and the time of `foretune tune` from start to report: medians of "
        f"{number_of_runs(found)} from an empty database; all: geometric mean. Settings of the search "
        "were chosen on tasks of these three networks.",
    )


def unseen(results: Results) -> str:
    """One row a network, for the first machine that has a result."""
    found = results.of("networks_unseen")
    if not found:
        return not_measured("python -m benchmarks.networks --set unseen")
    tables = []
    for result in found:
        runs = in_order(result)
        rows = [
            [
                NETWORKS.get(name, name),
                str(each[0]["tasks"]),
                duration(seconds(each).middle),
                milliseconds(middle(each, TUNED)),
                milliseconds(middle(each, EAGER)),
                times_spread(speed(each)),
                _known(result.values["networks"][name].get("in_records")),
            ]
            for name, each in runs
        ]
        failed = {each["network"] for each in result.values["failures"]} - dict(runs).keys()
        rows += [[NETWORKS.get(name, name), "", "failed", "", "", "", ""] for name in sorted(failed)]
        total = geometric_spread([speed(each).middle for _, each in runs])
        rows.append(["all, geometric mean", "", "", "", "", times_spread(total), ""])
        heads = ["network", "tasks", "tuning takes", "tuned", "PyTorch eager", "speed", "work in records"]
        tables.append(
            markdown(
                heads,
                rows,
                f"{result.machine}, {result.search}, {result.date}; medians of {number_of_runs([result])} "
                "from an empty database, the speed with the least and the most. Nothing had been chosen "
                "on these networks by then. Work in records: share of the operations in tasks whose shape is "
                "among the records that the models are trained on.",
            )
        )
    return "\n\n".join(tables)


def _known(seen: Mapping[str, float] | None) -> str:
    return "-" if seen is None else f"{seen['share_of_operations']:.0%}"


def runs(results: Results) -> str:
    """One row a machine and network, with spreads and counts."""
    rows = []
    found = results.of("networks_headline")
    for result in found:
        for name, each in in_order(result):
            took = seconds(each)
            difference = max(run["max_abs_difference"] for run in each)
            counts = [
                statistics.median(run[what] for run in each) for what in ("scored", "measured", "failed")
            ]
            rows.append(
                [
                    result.machine,
                    NETWORKS.get(name, name),
                    f"{duration(took.middle)} ({duration(took.least)} to {duration(took.most)})",
                    milliseconds(middle(each, TUNED)),
                    milliseconds(middle(each, EAGER)),
                    times_spread(speed(each)),
                    " / ".join(f"{count:,.0f}" for count in counts),
                    f"{difference:.1g}",
                ]
            )
    heads = ["machine", "network", "start to report", "tuned", "PyTorch eager", "speed"]
    heads += ["programs scored / measured / failed", "difference of outputs"]
    return markdown(
        heads, rows, f"Medians of {number_of_runs(found)}; least and most, or the largest difference."
    )


def checkouts(results: Results) -> str:
    """Two commits on the same networks, in turns."""
    found = results.of("networks_against")
    if not found:
        return not_measured("python -m benchmarks.networks --against CHECKOUT")
    rows = []
    for result in found:
        commits = {name: (commit or "?")[:7] for name, commit in result.manifest["checkouts"].items()}
        for name, of in result.values["networks"].items():
            pairs = of["runs"]
            took = [pair["this"]["total_s"] / pair["other"]["total_s"] for pair in pairs]
            latency = [pair["side_by_side_s"]["this"] / pair["side_by_side_s"]["other"] for pair in pairs]
            rows.append(
                [
                    result.machine,
                    f"{commits['this']} against {commits['other']}",
                    NETWORKS.get(name, name),
                    str(len(pairs)),
                    times_spread(geometric_spread(took)),
                    times_spread(geometric_spread(latency)),
                ]
            )
    heads = ["machine", "commits", "network", "pairs of runs", "seconds to tune", "latency"]
    return markdown(
        heads, rows, "Below 1 the first commit is ahead. Networks of a pair are timed side by side."
    )


def no_measurement(results: Results) -> str:
    """Networks tuned without a measurement, and by templates alone, beside the default search."""
    found = results.of("no_measurement")
    if not found:
        return not_measured("python -m benchmarks.no_measurement")
    rows = []
    for result in found:
        for name, each in in_order(result):
            cells = [_until_linked("default", each)]
            for search in ("predicted", "templates"):
                known = [run for run in each if search in run]
                cells += (
                    [_until_linked(search, known), _share_of_speed(search, known)] if known else ["-"] * 2
                )
            rows.append([result.machine, NETWORKS.get(name, name), str(len(each)), *cells])
    heads = [
        *("machine", "network", "runs of each", "default search"),
        *("without measuring", "share of its speed", "templates alone", "share of its speed"),
    ]
    return markdown(
        heads,
        rows,
        "Seconds from the imports to a linked library; to check and time it comes on top, which a run that "
        "measures nothing leaves out. Share: latency of the network that the default search tuned over that "
        "of the other one, timed side by side.",
    )


_TO_LIBRARY = ("network to tasks", "search and measure", "end of the processes", "compile", "link", "export")
"""Stages from the imports to a library. A run that measures nothing links in its export, others copy."""


def _until_linked(search: str, runs: Sequence[Mapping[str, Any]]) -> str:
    """Median seconds of a search's runs from the imports to a linked library."""
    took = [sum(run[search]["stage_s"].get(stage, 0.0) for stage in _TO_LIBRARY) for run in runs]
    return duration(statistics.median(took))


def _share_of_speed(search: str, runs: Sequence[Mapping[str, Any]]) -> str:
    spread = median_spread([run["side_by_side_s"]["default"] / run["side_by_side_s"][search] for run in runs])
    return f"{spread.middle:.0%}" + ("" if len(runs) == 1 else f" ({spread.least:.0%} to {spread.most:.0%})")


def nothing_to_do(results: Results) -> str:
    """Runs whose tasks are all in the database: seconds, and the stages that take most."""
    found = results.of("nothing_to_do")
    if not found:
        return not_measured("python -m benchmarks.nothing_to_do")
    rows = []
    for result in found:
        for name, each in result.values["networks"].items():
            runs = each["runs"]
            spread = median_spread([run["total_s"] for run in runs])
            rows.append(
                [
                    result.machine,
                    NETWORKS.get(name, name),
                    str(each["tasks"]),
                    f"{duration(spread.middle)} ({duration(spread.least)} to {duration(spread.most)})",
                    ", ".join(f"{stage} {duration(seconds)}" for stage, seconds in _longest_stages(runs)),
                    f"{_in_no_stage(runs):.1%}",
                ]
            )
    heads = ["machine", "network", "tasks", "a run takes", "of it", "in no stage"]
    return markdown(heads, rows, "Medians, least and most; from the start of the process, without rivals.")


def _longest_stages(runs: Sequence[Mapping[str, Any]], most: int = 5) -> list[tuple[str, float]]:
    """Stages with their median seconds, the longest first."""
    stages = {stage for run in runs for stage in run["stage_s"]}
    medians = {
        stage: statistics.median(run["stage_s"].get(stage, 0.0) for run in runs) for stage in sorted(stages)
    }
    return sorted(medians.items(), key=lambda found: -found[1])[:most]


def _in_no_stage(runs: Sequence[Mapping[str, Any]]) -> float:
    """Median share of a run that no stage tells of."""
    return statistics.median(1 - sum(run["stage_s"].values()) / run["total_s"] for run in runs)
