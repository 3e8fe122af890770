"""Tables of templates: by shape and data type (Bolt, Figure 1), and by what rates them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from ..common import geometric_spread
from .reading import Result, Results, markdown, mean_times, not_measured, times, times_spread

TYPES = ("float32", "bfloat16", "uint8")


def shapes(results: Results) -> str:
    """One row for each shape, with the fastest template of each data type."""
    rows = []
    for result in results.of("templates"):
        best: dict[tuple[str, str], Mapping[str, Any]] = {}
        for row in result.values["shapes"]:
            key = row["shape"], row["dtype"]
            if key not in best or row["latency_s"] < best[key]["latency_s"]:
                best[key] = row
        for shape in dict.fromkeys(row["shape"] for row in result.values["shapes"]):
            cells = [_cell(best.get((shape, dtype))) for dtype in TYPES]
            rows.append([result.machine, shape, *cells])
    return markdown(["machine", "shape", *(f"{dtype}: GFLOP/s, share of peak" for dtype in TYPES)], rows)


def _cell(row: Mapping[str, Any] | None) -> str:
    if row is None:
        return "-"
    return f"{row['gflops']:,.0f}, {100 * row['share_of_peak']:.0f} % of {row['instruction']}"


CONTESTANTS = {"default_rules": "default rules", "templates": "templates", "onednn": "oneDNN"}
"""Contestants of a layer, by their name in a result."""


def contests(results: Results) -> str:
    """One row for each number of threads and layer, with the contestants' shares of the peak by data type."""
    tables = []
    for result in results.of("templates"):
        found = result.values.get("contests", [])
        peaks: dict[tuple[int, str], float] = {}
        for one in found:
            kind = one["threads"], one["dtype"]
            peaks[kind] = max(peaks.get(kind, 0.0), *one["peak_gflops"].values())
        shares = {
            (one["threads"], one["shape"], one["dtype"]): _shares(one, peaks[one["threads"], one["dtype"]])
            for one in found
        }
        if not shares:
            continue
        body = []
        for threads in dict.fromkeys(one["threads"] for one in found):
            for shape in dict.fromkeys(one["shape"] for one in found):
                cells = [shares.get((threads, shape, dtype), "-") for dtype in TYPES]
                body.append([str(threads), shape, *cells])
            ratios = [
                _ahead([one for one in found if (one["threads"], one["dtype"]) == (threads, dtype)])
                for dtype in TYPES
            ]
            body.append([str(threads), "templates over default rules, over oneDNN", *ratios])
        tables.append(markdown(["threads", "layer", *TYPES], body, _contest_note(result)))
    return "\n\n".join(tables) or not_measured("python -m benchmarks.templates")


def _shares(contest: Mapping[str, Any], peak_gflops: float) -> str:
    """Share of a peak by contestant, a dash for one that failed, a tilde before one that was disturbed."""
    own = max(contest["peak_gflops"].values())
    rows = {row["contestant"]: row for row in contest["rows"]}
    cells = []
    for name in CONTESTANTS:
        row = rows.get(name)
        if row is None or row["error"]:
            cells.append("-")
        else:
            share = row["share_of_peak"] * own / peak_gflops
            cells.append(f"{'~' if row.get('disturbed', False) else ''}{100 * share:.0f} %")
    return ", ".join(cells)


def _ahead(layers: Sequence[Mapping[str, Any]]) -> str:
    """Geometric means of the templates' speed over that of each other contestant, of undisturbed timings."""
    known = [
        {row["contestant"]: row["share_of_peak"] for row in one["rows"] if not _left_out(row)}
        for one in layers
    ]
    ratios = []
    for rival in CONTESTANTS:
        if rival != "templates":
            pairs = [(of["templates"], of[rival]) for of in known if {"templates", rival} <= of.keys()]
            ratios.append(mean_times([ours / theirs for ours, theirs in pairs], len(layers)))
    return ", ".join(ratios)


def _left_out(row: Mapping[str, Any]) -> bool:
    return bool(row["error"] or row.get("disturbed", False))


def _contest_note(result: Result) -> str:
    rows = [row for one in result.values["contests"] for row in one["rows"]]
    version = next((row["detail"] for row in rows if row["contestant"] == "onednn" and not row["error"]), "")
    said = (
        f"{result.machine}, {result.date}. Share of the highest peak that was measured for the threads: "
        f"{', '.join(CONTESTANTS.values())}. Default rules: the fastest of {result.values['trials']} "
        "programs of stock MetaSchedule's search, found on all cores. oneDNN is that of "
        f"{version}."
    )
    if disturbed := sum(row.get("disturbed", False) for row in rows):
        said += f" Other work disturbed {disturbed} of {len(rows)} timings (~), which are not in the ratios."
    for row in rows:
        if row["error"]:
            said += f" Failed: {CONTESTANTS[row['contestant']]}: {row['error']}."
    return said


RATERS = {
    "closed_form": "closed form",
    "profile": "closed form with the machine's profile",
    "model": "pretrained model",
}
"""What rates templates, by its name in a result."""

FIRST = (1, 4)
"""Templates that are measured, the best rated ones."""


def ratings(results: Results) -> str:
    """One row for each data type and rater: speed of the fastest of its first templates over the fastest."""
    rows = []
    for result in results.of("template_ratings"):
        for dtype, tasks in result.values["tasks"].items():
            ran = [[row for row in each if row["latency_s"]] for each in tasks.values()]
            ran = [each for each in ran if each]
            if not ran:
                continue
            count = str(len(ran))
            for rater, title in RATERS.items():
                if all(row[rater] is not None for each in ran for row in each):
                    shares = [_share(ran, rater, first) for first in FIRST]
                    rows.append([result.machine, dtype, count, title, *shares])
            rows.append(
                [result.machine, dtype, count, "chance", *(_by_chance(ran, first) for first in FIRST)]
            )
    if not rows:
        return not_measured("python -m benchmarks.template_ratings")
    heads = ["machine", "data type", "tasks", "rated by", *(f"fastest of its first {n}" for n in FIRST)]
    note = (
        "Speed over that of the fastest template, geometric mean of the tasks. By chance: mean over the "
        "templates, or over draws of that many."
    )
    return markdown(heads, rows, note)


def _share(tasks: Sequence[Sequence[Mapping[str, Any]]], rater: str, first: int) -> str:
    shares = []
    for rows in tasks:
        chosen = sorted(rows, key=lambda row: row[rater])[:first]
        shares.append(_least(rows) / _least(chosen))
    return f"{100 * statistics.geometric_mean(shares):.0f} %"


def _by_chance(tasks: Sequence[Sequence[Mapping[str, Any]]], first: int) -> str:
    """Mean over all draws, by the chance that each template is the fastest of a draw."""
    shares = []
    for rows in tasks:
        ordered = sorted(row["latency_s"] for row in rows)
        drawn = min(first, len(ordered))
        draws = math.comb(len(ordered), drawn)
        shares.append(
            sum(
                ordered[0] / latency_s * math.comb(len(ordered) - 1 - place, drawn - 1) / draws
                for place, latency_s in enumerate(ordered)
            )
        )
    return f"{100 * statistics.geometric_mean(shares):.0f} %"


def _least(rows: Sequence[Mapping[str, Any]]) -> float:
    return min(float(row["latency_s"]) for row in rows)


def prefetches(results: Results) -> str:
    """One row for each layer and data type: speed with prefetches of weights over that without."""
    rows = []
    for result in results.of("prefetching"):
        for row in result.values["shapes"]:
            far, near = (row["gflops"][where] for where in ("far", "near"))
            cells = [f"{far[name]:,.0f}" for name in ("without", "with")]
            ratios = [times(one["with"] / one["without"]) for one in (far, near)]
            tile = f"{row['rows']}x{row['vectors']}"
            done = "yes" if row["prefetched"] else "no"
            rows.append([result.machine, row["shape"], row["dtype"], tile, done, *cells, *ratios])
    if not rows:
        return not_measured("python -m benchmarks.prefetching")
    heads = ["machine", "layer", "data type", "register tile", "prefetches", "GFLOP/s without", "with"]
    note = (
        "Weights far from the cores, as in a network, in GFLOP/s and as a ratio; the last column has weights "
        "that stay near. The most promising template by columns; a layer without prefetches shows the noise."
    )
    return markdown([*heads, "far", "near"], rows, note)


def pooling(results: Results) -> str:
    """One row for each layer: the convolution alone, with an average behind it, and with one in registers."""
    rows = []
    for result in results.of("pooling"):
        for row in result.values["layers"]:
            alone, separate, joined = (row["latency_s"][form] for form in ("image", "separate", "joined"))
            latencies = [f"{1e6 * seconds:.1f} us" for seconds in (alone, separate, joined)]
            rows.append([result.machine, row["network"], row["layer"], *latencies, times(separate / joined)])
    if not rows:
        return not_measured("python -m benchmarks.pooling")
    note = (
        "The convolution without an average, with one by a function of its own, and with one in its register "
        "tiles; the ratio is of the last two. Warm caches, in turns."
    )
    heads = ["machine", "network", "layer", "no average", "separate", "in registers", "speed"]
    return markdown(heads, rows, note)


def scheduling(results: Results) -> str:
    """One row for each source of programs: what LLVM's bounded scheduler saves, and what its code loses."""
    rows = []
    for result in results.of("fast_scheduling"):
        titles = {"search": f"`data/{result.values['dataset']}`", "template": "templates"}
        for source, title in titles.items():
            programs = [row for row in result.values["programs"] if row["source"] == source]
            if not programs:
                continue
            slowest = sorted(programs, key=lambda row: -row["compile_s"]["unbounded"])
            parts = programs, slowest[: math.ceil(len(slowest) / 10)]
            cells = [str(len(programs)), *(_compile_time(part) for part in parts)]
            changed = [row["latency_s"] for row in programs if "latency_s" in row]
            ratios = [each["bounded"] / each["unbounded"] for each in changed]
            latency = times_spread(geometric_spread(ratios)) if ratios else "-"
            rows.append([result.machine, title, *cells, str(len(changed)), latency])
    if not rows:
        return not_measured("python -m benchmarks.fast_scheduling")
    note = (
        "Time to compile with the bound over that without, of all programs and of the tenth that takes "
        "longest; latency of the programs whose code changes, geometric mean with the least and the most in "
        "brackets. In turns."
    )
    heads = ["machine", "programs", "number", "time to compile", "of the slowest tenth", "other code"]
    return markdown([*heads, "its latency"], rows, note)


def _compile_time(programs: Sequence[Mapping[str, Any]]) -> str:
    bounded, unbounded = (
        sum(row["compile_s"][name] for row in programs) for name in ("bounded", "unbounded")
    )
    return times(bounded / unbounded)
