"""Table of the ranges that a parent's program sets, on CPU records (ETO, section 3)."""

from __future__ import annotations

from collections.abc import Mapping

from .reading import Result, Results, markdown

PAPER = {"blocks": "87 %", "threads": "92 %", "shared": "89 %"}
"""Pairs in which a feature's range holds a fast program, on an NVIDIA P100 (ETO, section 3)."""

FEATURES = {"blocks": "B", "threads": "T", "shared": "M"}


def ranges(results: Results) -> str:
    """One row for each feature and for all three together, on each dataset."""
    rows = []
    for result in results.of("reuse_ranges"):
        chosen = result.values["chosen"].split("+")
        names = {f"{kind}/{name}": kind for kind, name in zip(FEATURES, chosen, strict=True)}
        for dataset, values in _in_order(result).items():
            for name in [*names, "+".join(chosen)]:
                kind = names.get(name)
                entry = values["means"][name]
                rows.append(
                    [
                        f"`data/{dataset}`, {values['pairs']:,} pairs",
                        f"{FEATURES[kind]}: {_plain(name)}" if kind else "all three",
                        _percent(entry["hit"]),
                        _percent(entry["kept"]),
                        _percent(entry["chance"]),
                        f"{_percent(entry['hit_elsewhere'])}, keeps {_percent(entry['kept_elsewhere'])}",
                        PAPER[kind] if kind else "-",
                    ]
                )
    heads = [
        *("records", "range of", "holds a fast program", "keeps", "as many programs at random hold one"),
        *("range of that width at random", "ETO on a P100"),
    ]
    return markdown(heads, rows)


def _in_order(result: Result) -> Mapping[str, Mapping[str, Mapping]]:
    """Datasets, the one with most pairs first."""
    datasets = result.values["datasets"]
    return {name: datasets[name] for name in sorted(datasets, key=lambda name: -datasets[name]["pairs"])}


def _plain(name: str) -> str:
    return name.split("/")[1].replace("_", " ")


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
