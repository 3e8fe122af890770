"""Rows of the study of held-out devices."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from .reading import Result

FEWEST_TASKS = 10
"""Tasks of a device's part that count in the means."""

GAINS = ("r2", "error", "spearman", "top_1", "top_5")
BETTER_IF_LOW = ("error",)
COMPARED = (
    *(
        ((target, inputs), (target, "program"))
        for target in ("latency", "over_roofline", "score")
        for inputs in ("hardware", "interactions")
    ),
    (("over_roofline", "program"), ("latency", "program")),
)
"""Target and inputs, each with the target and inputs that they are compared with."""


def held_out(result: Result) -> Iterator[dict[str, Any]]:
    """Latencies that trees predict for each device, by seed, with the device and its tasks."""
    for fit in result.values["fits"]:
        if fit["model"] == "trees" and fit["target"] != "score":
            yield {
                **result.values["devices"][fit["device"]],
                "new_device": _name(result, fit["device"]),
                "told": f"{fit['target']} {fit['inputs']}",
                **fit["parts"]["all"],
            }


def _name(result: Result, device: str) -> str:
    return f"`{result.values['devices'][device]['cpu']}`"


def agreements(result: Result) -> Iterator[dict[str, Any]]:
    """Pairs of devices with the agreement of their orders of the same programs."""
    for pair in result.values["agreements"]:
        one, other = (_name(result, device) for device in pair["devices"])
        yield {**pair, "one": one, "other": other}


def by_part(result: Result) -> list[dict[str, Any]]:
    """Metrics by model, target, inputs, device and seed; parts with few tasks are left out."""
    return [
        {
            **{name: fit[name] for name in ("model", "target", "inputs", "device", "seed")},
            **{
                part: {**found, "level": abs(found["offset"]) if "offset" in found else None}
                for part, found in fit["parts"].items()
                if found["tasks"] >= FEWEST_TASKS
            },
        }
        for fit in result.values["fits"]
    ]


def gains(result: Result) -> Iterator[dict[str, Any]]:
    """Gain of a target and its inputs over another (`COMPARED`).

    A gain is the mean over devices, each with the mean of its seeds, with the standard error of this mean and
    the number of devices on which it is positive.
    """
    frame = pd.json_normalize(by_part(result))
    for model, fits in frame.groupby("model", sort=False):
        means = fits.groupby(["target", "inputs", "device"]).mean(numeric_only=True)
        for one, other in COMPARED:
            if not {one, other} <= set(zip(fits["target"], fits["inputs"], strict=True)):
                continue
            change = means.loc[one] - means.loc[other]
            row: dict[str, Any] = {"model": model, "devices": len(change)}
            row |= {"target": one[0], "inputs": one[1], "than_target": other[0], "than_inputs": other[1]}
            for name in GAINS:
                if f"all.{name}" in change:
                    of_devices = change[f"all.{name}"] * (-1 if name in BETTER_IF_LOW else 1)
                    row[name] = _gain(of_devices.dropna().tolist())
            yield row


def _gain(of_devices: Sequence[float]) -> dict[str, Any] | None:
    if len(of_devices) < 2:
        return None
    return {
        "mean": statistics.fmean(of_devices),
        "error": statistics.stdev(of_devices) / len(of_devices) ** 0.5,
        "better": sum(one > 0 for one in of_devices),
    }
