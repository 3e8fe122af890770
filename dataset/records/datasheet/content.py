"""Contents of a datasheet: its facts, tables and paragraphs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from ....page import Fact, Facts, Plot, Plots, Table, Text, columns
from ....wording import MISSING, counted, milliseconds, significant
from ...generation.core_use import IDLE
from .limits import (
    best_text,
    count_text,
    day_text,
    limits,
    median_text,
    range_text,
    record_counts,
    share_text,
    target_text,
    versions,
)
from .overview import Overview
from .peaks import device_peaks

_QUANTILES = (0.0, 0.1, 0.5, 0.9, 1.0)


def parts(
    overview: Overview, plots: Sequence[Plot], label_noise: dict[str, Any] | None
) -> list[Facts | Plots | Table | Text]:
    """The whole datasheet, with its plots."""
    return [
        Facts(facts(overview, label_noise)),
        Plots(plots),
        *sections(overview),
        Text("How to read it", method(overview)),
        Text("Known limits", items=limits(overview, label_noise)),
    ]


def facts(overview: Overview, label_noise: dict[str, Any] | None = None) -> list[Fact]:
    """Key figures of the dataset; `label_noise` is the result of remeasuring some records."""
    return list(_facts(overview, label_noise))


def _facts(overview: Overview, label_noise: dict[str, Any] | None) -> Iterator[Fact]:
    tasks, records, valid = overview.tasks, overview.records, overview.valid
    operators = tasks.operator.nunique()
    yield Fact(
        "Tasks",
        count_text(len(tasks)),
        f"of {counted(operators, 'operator')}, {count_text((tasks.valid > 0).sum())} measured",
    )
    failed = len(records) - len(valid)
    detail = f"{count_text(len(valid))} valid, {count_text(failed)} failed" if failed else "all valid"
    yield Fact("Records", count_text(len(records)), detail if len(records) else "")
    if valid.empty:
        return
    measured = tasks[tasks.records > 0]
    per_task = measured.records
    yield Fact("Records per task", count_text(per_task.median()), range_text(per_task, count_text, "from "))
    yield Fact(
        "Measured",
        day_text(records.timestamp.min()),
        f"until {day_text(records.timestamp.max())} (UTC), with TVM {', '.join(versions(records))}",
    )
    yield Fact(
        "Latency of the best programs",
        milliseconds(measured.best_s[measured.valid > 0].median()),
        "median over the tasks, " + range_text(measured.best_s[measured.valid > 0], milliseconds, "from "),
    )
    yield Fact(
        "Rate of the best programs",
        f"{significant(measured.gflops.max())} GFLOP/s",
        f"maximum over the tasks; their median is {significant(measured.gflops.median())}",
    )
    yield from _quality_facts(overview, label_noise)


def _quality_facts(overview: Overview, label_noise: dict[str, Any] | None) -> Iterator[Fact]:
    """Noise and losses of the measurement."""
    records, valid = overview.records, overview.valid
    if valid.spread.notna().any():
        yield Fact(
            "Spread of the repeats",
            f"{valid.spread.median():.1%}",
            f"median over minimum within a record, minus 1; 90% are below {valid.spread.quantile(0.9):.1%}",
        )
    if label_noise:
        yield Fact(
            "Label noise",
            f"{label_noise['median_relative_difference']:.1%}",
            f"median difference of {counted(label_noise['records'], 'record')} remeasured "
            f"{label_noise['median_hours_between']:.1f} h later on {label_noise['hardware']}",
        )
    yield Fact(
        "Cut short",
        count_text(records.cut_short.sum()),
        "single runs of programs far slower than the best of their task",
    )
    if probed := records.probe_ratio.notna().sum():
        yield Fact(
            "Disturbed",
            count_text(records.disturbed.sum()),
            f"measured under noise and kept, out of {counted(probed, 'record')} with a noise probe",
        )
    if with_counters := records.moved_bytes.notna().sum():
        yield Fact(
            "Counted",
            count_text(with_counters),
            "records whose memory traffic was read from the CPU's performance counters",
        )
    if simulated := int(records.simulated.sum()):
        yield Fact("Simulated", count_text(simulated), "not measured on a device", good=False)


def sections(overview: Overview) -> list[Table]:
    """Tables of counts and distributions."""
    found = [operators_section(overview), samplers_section(overview), devices_section(overview)]
    if overview.records.failure.notna().any():
        found.append(failures_section(overview))
    if not overview.valid.empty:
        found.append(distributions_section(overview))
    if overview.networks:
        found.append(networks_section(overview))
    if overview.runs:
        found.append(runs_section(overview))
    return [*found, sources_section(overview)]


def operators_section(overview: Overview) -> Table:
    rows = []
    for operator, tasks in _largest_first(overview.tasks.groupby("operator")):
        records = overview.records[overview.records.operator == operator]
        rows.append(
            [
                operator,
                count_text(len(tasks)),
                *record_counts(records),
                median_text(tasks.gflops[tasks.valid > 0]),
            ]
        )
    return Table(
        "Operators",
        columns("operator", "tasks", "records", "valid", "median score", "best GFLOP/s"),
        rows,
        "Best GFLOP/s is the median over the tasks of their best program's rate.",
    )


def samplers_section(overview: Overview) -> Table:
    rows = [
        [sampler, *record_counts(records), count_text(records["round"].max() + 1)]
        for sampler, records in _largest_first(overview.records.groupby("sampler"))
    ]
    return Table("Samplers", columns("sampler", "records", "valid", "median score", "rounds"), rows)


def devices_section(overview: Overview) -> Table:
    too_low = {peak.device for peak in device_peaks(overview) if peak.too_low}
    rows = []
    for (device, target), records in _largest_first(overview.records.groupby(["hardware_id", "target"])):
        hardware = overview.hardware.get(device)
        cells = [device, "not described", MISSING, MISSING, MISSING]
        if hardware:
            cells = [device, hardware.name, str(hardware.cores)]
            peak = f"{significant(hardware.peak_gflops)}{', too low' if device in too_low else ''}"
            cells += [peak, significant(hardware.bandwidth_gbs)]
        rows.append([*cells, target_text(target), count_text(len(records))])
    heads = ("device", "name", "cores", "peak GFLOP/s", "GB/s", "target", "records")
    return Table("Devices", columns(*heads, text=("name", "target")), rows)


def runs_section(overview: Overview) -> Table:
    stages = sorted({stage for run in overview.runs for stage in run.core_shares if stage != IDLE})
    rows = [
        [
            day_text(run.ended_at),
            f"{run.seconds:.0f}",
            count_text(run.measured),
            count_text(run.valid),
            f"{sum(run.cpu_s.values()) / max(1, run.valid):.2f}",
            *(f"{run.core_shares.get(stage, 0.0):.0%}" for stage in (*stages, IDLE)),
            f"{run.device_share:.0%}",
        ]
        for run in overview.runs
    ]
    heads = ("until", "seconds", "records", "valid", "CPU s per valid record", *stages, IDLE, "devices")
    return Table(
        "Runs",
        columns(*heads),
        rows,
        "Share of the machine's cores that each stage used, and of the time in which devices ran programs; "
        "the start of processes is not included.",
    )


def failures_section(overview: Overview) -> Table:
    counts = overview.records.failure.value_counts()
    rows = [[kind, count_text(n), share_text(n, len(overview.records))] for kind, n in counts.items()]
    return Table("Failures", columns("kind", "records", "share"), rows)


def distributions_section(overview: Overview) -> Table:
    tasks, valid = overview.tasks[overview.tasks.valid > 0], overview.valid
    quantities = [
        ("latency of a record, ms", valid.latency_s * 1e3),
        ("score of a record", valid.score),
        ("best GFLOP/s of a task", tasks.gflops),
        ("MFLOP of a task", tasks.flops / 1e6),
        ("records of a task", tasks.records),
        ("spread of the repeats, %", 100 * valid.spread.dropna()),
        ("probe ratio", overview.records.probe_ratio.dropna()),
    ]
    rows = [
        [name, *(significant(float(values.quantile(at))) for at in _QUANTILES)]
        for name, values in quantities
        if len(values)
    ]
    heads = ("of valid records", "minimum", "10%", "median", "90%", "maximum")
    return Table("Distributions", columns(*heads), rows)


def sources_section(overview: Overview) -> Table:
    rows = [
        [source, dtype or MISSING, count_text(len(tasks))]
        for (source, dtype), tasks in _largest_first(overview.tasks.groupby(["source", "dtype"]))
    ]
    heads = columns("source", "data type", "tasks", text=("data type",))
    return Table("Sources of the tasks", heads, rows)


def networks_section(overview: Overview) -> Table:
    valid = overview.tasks.valid
    rows = []
    for name, weights in overview.networks.items():
        known = valid.reindex(list(weights), fill_value=0)
        calls = sum(weight for task, weight in weights.items() if known[task] > 0)
        share = share_text(calls, sum(weights.values()))
        rows.append(
            [name, count_text(len(weights)), count_text((known > 0).sum()), share, count_text(known.sum())]
        )
    heads = ("network", "tasks", "measured", "share of calls", "valid records")
    return Table(
        "Networks", columns(*heads), rows, "A task shared by several networks counts for each of them."
    )


def tasks_section(overview: Overview) -> Table:
    """Table of all tasks, which is too long for a datasheet."""
    tasks = overview.tasks.reset_index().sort_values(["operator", "name"])
    rows = [
        [
            *(row["name"], row["workload_hash"], count_text(row["records"]), count_text(row["valid"])),
            *(best_text(row["best_s"]), median_text([row["gflops"]])),
        ]
        for row in tasks.to_dict("records")
    ]
    heads = ("task", "workload hash", "records", "valid", "best ms", "GFLOP/s")
    return Table("Tasks", columns(*heads, text=("workload hash",)), rows)


def method(overview: Overview) -> list[str]:
    """Paragraphs that explain how to read a record."""
    paragraphs = [
        "A record is one program of a task on one device: its trace, and either the repeats of its run time "
        "in seconds or a typed failure. Its latency is the shortest repeat, since disturbances only add "
        "time. Its score is the best latency of its task on the device divided by its own.",
        "A task is a fused subgraph with fixed shapes, stored as a TIR function. Rates count a multiply-add "
        "as two operations, as TVM's estimate of the unscheduled function does.",
    ]
    if (overview.records["sampler"] == "import").any():
        paragraphs.append(
            "Records of the sampler `import` come from a MetaSchedule database. Their time is that of its "
            "file, and their device was given at the import."
        )
    paragraphs.append(
        "`foretune dataset datasheet` writes this datasheet as Markdown, `datasheet.md`, and as a page with "
        "plots, `datasheet.html`."
    )
    return paragraphs


def _largest_first(groups: Any) -> list[tuple[Any, pd.DataFrame]]:
    """Groups sorted by size, largest first."""
    return sorted(groups, key=lambda group: -len(group[1]))
