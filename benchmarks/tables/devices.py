"""Rows of the study of held-out devices."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from .reading import MACHINES, Result

FEWEST_TASKS = 20
"""Tasks of a device's part that count in the means."""

GAINS = ("r2", "error", "spearman", "top_1", "top_5")
BETTER_IF_LOW = ("error",)


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
    described = result.values["devices"][device]
    return f"{MACHINES.get(described['machine'], described['machine'])}, `{described['cpu']}`"


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
    """Gain by features of the hardware, for each model and target.

    A gain is the mean over devices, each with the mean of its seeds, with the standard error of this mean and
    the number of devices on which it is positive.
    """
    frame = pd.json_normalize(by_part(result))
    for (model, target), fits in frame.groupby(["model", "target"], sort=False):
        means = fits.groupby(["inputs", "device"]).mean(numeric_only=True)
        for inputs in ("hardware", "interactions"):
            if not {inputs, "program"} <= set(fits["inputs"]):
                continue
            change = means.loc[inputs] - means.loc["program"]
            row: dict[str, Any] = {"model": model, "target": target, "inputs": inputs, "devices": len(change)}
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
