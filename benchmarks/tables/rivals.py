"""Tables of tuned networks beside their rivals."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from ..common import geometric_spread
from .networks import NETWORKS
from .reading import (
    Result,
    Results,
    duration,
    markdown,
    mean_times,
    milliseconds,
    not_measured,
    times,
    times_spread,
)

FORETUNE = "foretune"
COMMAND = "python -m benchmarks.rivals"

RIVALS = {
    "openvino": "OpenVINO",
    "onnxruntime": "ONNX Runtime",
    "inductor_max_autotune": "max-autotune",
    "inductor": "torch.compile",
    "eager_channels_last": "eager, channels last",
    "eager": "eager",
}
"""Titles of rivals in the order of the columns."""

UNTOUCHED = ("resnext50", "resnest50", "mnasnet", "mobilenetv1", "alexnet", "mobilebert")
"""Networks that were not beside rivals before 2026-11-27."""

EVEN = 0.97
"""Ratio to the tuned network from which on a rival counts as no faster."""

SHOWN_TASKS, NAME_CHARS = 3, 40

Row = Mapping[str, Any]


def latency(row: Row | None) -> float | None:
    """Seconds from which a ratio may be claimed, else None."""
    return None if row is None or row["disturbed"] or row["error"] else row["latency_s"]


def by_network(result: Result) -> dict[str, dict[str, Row]]:
    """Network -> rival -> row, in the order of the tables."""
    found: dict[str, dict[str, Row]] = {}
    for row in result.values["rows"]:
        found.setdefault(row["network"], {})[row["rival"]] = row
    order = list(NETWORKS)
    return dict(sorted(found.items(), key=lambda item: order.index(item[0]) if item[0] in order else 99))


def best_rival(rows: Mapping[str, Row]) -> tuple[str, float] | None:
    """The fastest rival of a network and its latency over the tuned network's, None where it is not known."""
    known = {name: latency(row) for name, row in rows.items()}
    ours = known.pop(FORETUNE, None)
    others = {name: seconds for name, seconds in known.items() if seconds is not None}
    if ours is None or not others:
        return None
    name = min(others, key=lambda rival: others[rival])
    return name, others[name] / ours


def networks(results: Results) -> str:
    """One row a network and machine, and the geometric means."""
    return _networks(results.of("rivals", ""), COMMAND)


def untouched(results: Results) -> str:
    """The same of networks that no template was written for."""
    command = f"{COMMAND} --variant untouched --networks {' '.join(UNTOUCHED)}"
    return _networks(results.of("rivals", "untouched"), command)


def networks_on_gpus(results: Results) -> str:
    """The same of networks that were tuned for a GPU."""
    variants = ("cuda", "cuda-bfloat16", "cuda-bfloat16-bert")
    found = [result for variant in variants for result in results.of("rivals", variant)]
    return _networks(found, f"{COMMAND} --target cuda")


def networks_in(dtype: str, results: Results) -> str:
    """The same of networks that were tuned in a narrower data type, in the variant of its name."""
    command = f"{COMMAND} --variant {dtype} -- lowering.dtype={dtype}"
    return _networks(results.of("rivals", dtype), command)


def _networks(found: Sequence[Result], command: str) -> str:
    if not found:
        return not_measured(command)
    tables = []
    for result in found:
        named = by_network(result)
        shown = [name for name in RIVALS if any(name in rows for rows in named.values())]
        body = [_network_row(result, network, rows, shown) for network, rows in named.items()]
        means = [
            mean_times([ratio for rows in named.values() if (ratio := _ratio(rows, rival))], len(named))
            for rival in shown
        ]
        best = [found[1] for rows in named.values() if (found := best_rival(rows)) is not None]
        total = times_spread(geometric_spread(best)) if best else "-"
        body.append(["geometric mean of the ratio to the tuned network", "-", *means, total, "-"])
        heads = [
            "network",
            "tuned",
            *(RIVALS[name] for name in shown),
            "best over tuned",
            "of the peak",
        ]
        tables.append(markdown(heads, body, _note(result)))
    return "\n\n".join(tables)


def costs(results: Results) -> str:
    """Time to a runnable network and memory: one row a machine and rival."""
    found = results.of("rivals", "")
    if not found:
        return not_measured(COMMAND)
    body = []
    for result in found:
        rows = result.values["rows"]
        for name, title in {FORETUNE: "tuned network", **RIVALS}.items():
            own = [row for row in rows if row["rival"] == name]
            ready = [row["ready_s"] for row in own if row["ready_s"] is not None and not row["error"]]
            memory = [row["peak_mb"] for row in own if row["peak_mb"] is not None and not row["error"]]
            if ready and memory:
                versions = ", ".join(sorted({row["version"] for row in own if row["version"]})) or "-"
                body.append(
                    [
                        *(result.machine, title, versions),
                        _middle([duration(value) for value in _three(ready)]),
                        _middle([f"{value:,.0f} MB" for value in _three(memory)]),
                        f"{len(own) - len(ready)} of {len(own)}",
                    ]
                )
    heads = ["machine", "network in", "version", "ready after", "memory of its process", "failed"]
    return markdown(
        heads,
        body,
        "Medians over the networks, least and most. From the network to the end of its first run: the tuned "
        "network's time is that of tuning it, the export to ONNX counts for ONNX Runtime and OpenVINO.",
    )


def lost(results: Results) -> str:
    """The tasks that lose most time to the peak, of networks that a rival is ahead of: one row a task."""
    found = results.of("rivals", "")
    if not found:
        return not_measured(COMMAND)
    body = []
    for result in found:
        for network, rows in by_network(result).items():
            best = best_rival(rows)
            if best is not None and best[1] < EVEN:
                body += [
                    [result.machine, NETWORKS.get(network, network), *cells]
                    for cells in _losses(result.values["networks"][network])
                ]
    heads = ["machine", "network", "task", "operator", "share of the time", "of the peak", "lost to the peak"]
    return markdown(
        heads,
        body,
        f"Networks under {EVEN}x of their best rival; {SHOWN_TASKS} tasks of each, all calls together. Lost: "
        "what the task takes beyond its operations at the cores' peak. Tasks that move memory and compute "
        "little cannot reach it.",
    )


def _losses(network: Mapping[str, Any]) -> list[list[str]]:
    """Cells of the tasks that lose most of those that a result lists."""
    lost_s = {
        task["task"]: network["tasks_s"] * task["share_of_time"] * max(0.0, 1 - task["share_of_peak"])
        for task in network["longest"]
    }
    worst = sorted(network["longest"], key=lambda task: -lost_s[task["task"]])[:SHOWN_TASKS]
    return [
        [
            f"`{task['task'][:NAME_CHARS]}`",
            task["operator"],
            f"{task['share_of_time']:.0%}",
            f"{task['share_of_peak']:.0%}",
            milliseconds(lost_s[task["task"]]),
        ]
        for task in worst
    ]


def _three(values: Sequence[float]) -> tuple[float, float, float]:
    return statistics.median(values), min(values), max(values)


def _middle(texts: Sequence[str]) -> str:
    middle, least, most = texts
    return f"{middle} ({least} to {most})"


def _network_row(result: Result, network: str, rows: Mapping[str, Row], shown: Sequence[str]) -> list[str]:
    best = best_rival(rows)
    share = result.values["networks"].get(network, {}).get("share_of_peak")
    return [
        NETWORKS.get(network, network),
        _cell(rows.get(FORETUNE)),
        *(_cell(rows.get(rival)) for rival in shown),
        "-" if best is None else f"{times(best[1])} ({RIVALS.get(best[0], best[0])})",
        "-" if share is None else f"{share:.0%}",
    ]


def _peaks(networks: Mapping[str, Any]) -> str:
    """Least and most of the peaks, each measured after a network was tuned; "" where none was."""
    known = {network["peak_gflops"] for network in networks.values()} - {None}
    peaks = sorted({f"{peak:.0f}" for peak in known}, key=float)
    return " to ".join(dict.fromkeys((*peaks[:1], *peaks[-1:])))


def _cell(row: Row | None) -> str:
    if row is None:
        return "-"
    if row["error"]:
        return "failed"
    return "disturbed" if row["disturbed"] else milliseconds(row["latency_s"])


def _ratio(rows: Mapping[str, Row], rival: str) -> float | None:
    ours, other = latency(rows.get(FORETUNE)), latency(rows.get(rival))
    return None if ours is None or other is None else other / ours


def _types(values: Mapping[str, Any]) -> str:
    """Data type of the tuned networks, and the rivals that run in another one."""
    ours = ", ".join(sorted({row["dtype"] for row in values["rows"] if row["rival"] == FORETUNE}))
    others = {
        RIVALS.get(row["rival"], row["rival"]): row["dtype"]
        for row in values["rows"]
        if row["dtype"] != ours and not row["error"]
    }
    said = [ours.capitalize(), *(f"{name} in {dtype}" for name, dtype in others.items())]
    return ", ".join(said)


def _note(result: Result) -> str:
    values = result.values
    failed = sorted(
        f"{RIVALS.get(row['rival'], row['rival'])} with {NETWORKS.get(row['network'], row['network'])}: "
        f"{row['error']}"
        for row in values["rows"]
        if row["error"]
    )
    failed += [
        f"tuned network with {NETWORKS.get(one['network'], one['network'])}: {one['error']}"
        for one in values.get("failures", ())
    ]
    peaks = _peaks(values["networks"])
    on = f"{result.machine}, {values['threads']} threads" if peaks else result.machine
    said = (
        f"{on}, {result.search}, {result.date}. {_types(values)}, batch 1; each in a process of its own, in "
        "turns. Above 1 the tuned network is ahead."
    )
    if peaks:
        said += (
            f" Of the peak: operations of the tasks a second over the peak of the cores, {peaks} GFLOP/s by "
            "float32 multiply-adds in registers."
        )
    if failed:
        said += f" Failed: {'; '.join(failed)}."
    return said + "".join(
        f" {_by_launches(network, timings)}" for network, timings in values.get("launches", {}).items()
    )


LAUNCHES = {"one_graph": "as one CUDA graph", "each_kernel": "kernel by kernel"}


def _by_launches(network: str, timings: Mapping[str, Mapping[str, float]]) -> str:
    """Sentence on further timings of a network that a GPU runs in several ways, each beside a rival."""
    told = [
        f"{LAUNCHES[way]} {milliseconds(seconds[FORETUNE])} ("
        + ", ".join(f"{RIVALS[name]} {milliseconds(s)}" for name, s in seconds.items() if name != FORETUNE)
        + ")"
        for way, seconds in timings.items()
    ]
    return f"{NETWORKS.get(network, network)} timed again: {', '.join(told)}."
