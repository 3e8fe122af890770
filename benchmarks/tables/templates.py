"""Rows of templates and fusion (Bolt)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from ..epilogues import SEPARATE
from .declare import names
from .reading import Result


def shapes(result: Result) -> pd.DataFrame:
    """The fastest template of each shape and type."""
    rows = pd.DataFrame(result.values["shapes"])
    best = rows.sort_values("latency_s").drop_duplicates(["shape", "dtype"]).sort_index()
    return best.assign(percent=100 * best["share_of_peak"])


def epilogues(result: Result) -> Iterator[dict[str, Any]]:
    """Networks with fused epilogues, run by run and by data type, compared with separate functions."""
    for network, of in result.values["networks"].items():
        for run in of["runs"]:
            timed = run["side_by_side_s"]
            for dtype in (name for name in timed if f"{name} {SEPARATE}" in timed):
                separate_s = timed[f"{dtype} {SEPARATE}"]
                about = {"network": network, "dtype": dtype, "seed": run[dtype]["seed"]}
                times = {"fused_s": timed[dtype], "separate_s": separate_s}
                yield {**about, **times, "speed": separate_s / timed[dtype]}


def contests(result: Result) -> pd.DataFrame:
    """Contestants of each layer: share of the highest peak, and speed of the templates over theirs.

    Failed timings have neither; disturbed ones have a tilde and no speed.
    """
    found = result.values.get("contests", [])
    rows = [
        {
            **row,
            **{key: one[key] for key in ("threads", "dtype", "shape")},
            "own": max(one["peak_gflops"].values()),
        }
        for one in found
        for row in one["rows"]
    ]
    if not rows:
        return pd.DataFrame()
    frame = pd.DataFrame(rows)
    same = frame.groupby(["threads", "dtype"])["own"].transform("max")
    share = (100 * frame["share_of_peak"] * frame["own"] / same).where(frame["error"] == "")
    sound = frame["share_of_peak"].where(~frame["disturbed"] & (frame["error"] == ""))
    keys = ["threads", "dtype", "shape"]
    ours = frame.assign(sound=sound)[frame["contestant"] == "templates"].set_index(keys)["sound"]
    ratio = ours.reindex(pd.MultiIndex.from_frame(frame[keys])).to_numpy() / sound
    text = [
        "-" if one != one else f"{'~' if disturbed else ''}{one:.0f} %"
        for one, disturbed in zip(share, frame["disturbed"], strict=True)
    ]
    return frame.assign(share=text, ahead=ratio.where(frame["contestant"] != "templates"))


FIRST = (1, 4)
"""Numbers of measured templates, chosen by rating."""


def ratings(result: Result) -> Iterator[dict[str, Any]]:
    """Data types, raters and tasks: speed of the fastest of the first templates over the fastest of all."""
    for dtype, tasks in result.values["tasks"].items():
        ran = [found for each in tasks.values() if (found := [row for row in each if row["latency_s"]])]
        for rater in names()["rater"]:
            if rater == "chance" or all(row.get(rater) is not None for each in ran for row in each):
                for rows in ran:
                    shares = {f"first_{n}": first_of(rows, rater, n) for n in FIRST}
                    yield {"dtype": dtype, "rater": rater, **shares}


def first_of(rows: Sequence[Any], rater: str, first: int) -> float:
    """Speed of the fastest of a rater's first templates; for chance, the mean over draws of the same
    number."""
    ordered = sorted(row["latency_s"] for row in rows)
    if rater != "chance":
        chosen = sorted(rows, key=lambda row: row[rater])[:first]
        return float(ordered[0] / min(row["latency_s"] for row in chosen))
    drawn = min(first, len(ordered))
    return sum(
        ordered[0]
        / latency_s
        * math.comb(len(ordered) - 1 - place, drawn - 1)
        / math.comb(len(ordered), drawn)
        for place, latency_s in enumerate(ordered)
    )


def fusion(result: Result) -> Iterator[dict[str, Any]]:
    """Layers with the fastest way to fuse them."""
    for row in result.values["rows"]:
        way, fused_s = min(row["fused_s"].items(), key=lambda item: item[1], default=("not offered", None))
        gain = row["separate_s"] / fused_s if fused_s else None
        yield {**row, "way": way, "fused": fused_s, "gain": gain}


def padding(result: Result) -> Iterator[dict[str, Any]]:
    """First layers by form, with the speed relative to the plain one."""
    for layer, forms in result.values["layers"].items():
        for form, one in forms.items():
            yield {
                **one,
                "layer": layer,
                "form": form,
                "speed": forms["plain"]["latency_s"] / one["latency_s"],
            }


def winograd(result: Result) -> Iterator[dict[str, Any]]:
    """Layers by algorithm, with the speed relative to the direct convolution."""
    for one in result.values["layers"]:
        for algorithm, form in one["forms"].items():
            size, inputs, outputs = one["layer"]
            speed = one["forms"]["direct"]["latency_s"] / form["latency_s"]
            about = {"layer": f"{size}x{size}, {inputs} to {outputs}", "algorithm": algorithm}
            yield {**form, **about, "speed": speed}


PUBLISHED = {
    "activations": {"A0-relu": 5909, "A0-gelu": 5645, "A0-hardswish": 5713, "A0-softplus": 5453},
    "deeper": {
        **{"A0-relu": 7861, "A1-relu": 6253, "B0-relu": 4888},
        **{"A0-relu-deeper": 6716, "A1-relu-deeper": 5241, "B0-relu-deeper": 4145},
        **{"A0-hardswish-deeper": 6338, "A1-hardswish-deeper": 4868, "B0-hardswish-deeper": 3842},
        "A0-hardswish-deeper-3": 7288,
    },
}
"""Images a second of a Tesla T4 at batch 32 in float16 (Bolt, Tables 4, and 5 and 6)."""


def repvgg(result: Result, table: str) -> Iterator[dict[str, Any]]:
    """Forms of RepVGG, with their speed relative to the plain form of their size, here and in Bolt."""
    forms, published = result.values["forms"], PUBLISHED[table]
    for name in (name for name in published if name in forms):
        one, plain = forms[name], f"{forms[name]['size']}-relu"
        speed = forms[plain]["latency_s"] / one["latency_s"] if plain in forms else None
        some = f"after the first {one['deeper']}" if one["deeper"] else "none"
        added = "after all but the last" if one["deeper"] > 10 else some
        yield {**one, "speed": speed, "added": added, "published": published[name] / published[plain]}
