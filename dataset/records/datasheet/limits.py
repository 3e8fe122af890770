"""Limits of a dataset, as sentences, and how the datasheet writes quantities."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

import numpy as np
import pandas as pd

from ....wording import MISSING, counted, part_of, significant, verb
from ..low_peaks import REMEDY
from .overview import Overview
from .peaks import DevicePeak, device_peaks


def record_counts(records: pd.DataFrame) -> list[str]:
    valid = records[records.failure.isna()]
    return [count_text(len(records)), count_text(len(valid)), median_text(valid.score)]


def count_text(number: float) -> str:
    return f"{number:,.0f}"


def median_text(values: Any) -> str:
    return significant(float(np.median(values))) if len(values) else MISSING


def best_text(seconds: float) -> str:
    return significant(seconds * 1e3) if np.isfinite(seconds) else MISSING


def share_text(part: float, whole: float) -> str:
    return f"{significant(100 * part / whole, 2)}%" if whole else MISSING


def range_text(values: pd.Series, show: Any, prefix: str = "") -> str:
    if values.min() == values.max():
        return "all equal"
    return f"{prefix}{show(values.min())} to {show(values.max())}"


def day_text(timestamp: float) -> str:
    return datetime.fromtimestamp(timestamp, tz=timezone.utc).strftime("%Y-%m-%d %H:%M")


def versions(records: pd.DataFrame) -> list[str]:
    return sorted(version or "of unknown version" for version in records.tvm_version.unique())


def target_text(text: str) -> str:
    """Short description of a target."""
    target = json.loads(text)
    words = [target["kind"], target.get("mcpu") or target.get("arch") or target.get("tag") or ""]
    if "num-cores" in target:
        words.append(counted(target["num-cores"], "core"))
    return " ".join(filter(None, words))


def too_low_peak(peak: DevicePeak) -> str:
    """Sentence on a peak that measured programs contradict."""
    faster = f"{counted(peak.faster_tasks, 'task')} {verb(peak.faster_tasks, 'runs', 'run')} faster"
    return (
        f"The measured peak of {peak.name}, {significant(peak.gflops)} GFLOP/s, is too low, since {faster}: "
        "its measurement was disturbed, or PyTorch's matrix product is slow on the device."
    )


FEW_RECORDS = 10
"""Number of valid records below which a task says little about the ranking of its programs."""


def limits(overview: Overview, label_noise: dict[str, Any] | None = None) -> list[str]:
    """Conclusions that the dataset does not support."""
    return list(_limits(overview, label_noise))


def _limits(overview: Overview, label_noise: dict[str, Any] | None) -> Iterator[str]:
    tasks, records, valid = overview.tasks, overview.records, overview.valid
    if overview.bad_shards:
        damaged = len(overview.bad_shards)
        yield f"{counted(damaged, 'damaged shard')} {verb(damaged, 'is', 'are')} not counted here."
    if simulated := int(records.simulated.sum()):
        which = f"{counted(simulated, 'record')} {verb(simulated, 'is', 'are')}"
        yield f"{which} simulated: training leaves out simulated records."
    for low in overview.low_peaks:
        yield f"{str(low)[:1].upper()}{str(low)[1:]}; {REMEDY}."
    if len(overview.hardware) == 1:
        (hardware,) = overview.hardware.values()
        yield f"All latencies were measured on one device ({hardware.name}) and say nothing about others."
    named = {low.hardware.hardware_id for low in overview.low_peaks if low.is_exceeded}
    for peak in device_peaks(overview):
        if peak.too_low and peak.device not in named:
            yield f"{too_low_peak(peak)} Efficiencies, which are computed with it, may exceed 1."
    dtypes = sorted(set(tasks.dtype) - {""})
    if len(dtypes) == 1:
        yield f"All tasks compute in {dtypes[0]}."
    if few := int((tasks.valid < FEW_RECORDS).sum()):
        which = f"{part_of(few, len(tasks), 'task')} {verb(few, 'has', 'have')}"
        yield f"{which} fewer than {FEW_RECORDS} valid records."
    yield from _sampling_limits(records["sampler"])
    if unprobed := int(records.probe_ratio.isna().sum()):
        which = f"{counted(unprobed, 'record')} {verb(unprobed, 'has', 'have')}"
        yield f"{which} no noise probe, so disturbances are not marked."
    if uncounted := int(valid.moved_bytes.isna().sum()):
        which = f"{part_of(uncounted, len(valid), 'valid record')} {verb(uncounted, 'has', 'have')}"
        yield (
            f"{which} no performance counters: memory scores then use the memory traffic counted from the "
            "lowered program."
        )
    if label_noise is None:
        yield "The label noise, the difference from a measurement on another day, was not measured."
    elif label_noise.get("content_hash") != overview.content_hash:
        yield "The label noise was measured on an earlier version of this dataset."


NO_SEARCH = {
    "random": None,
    "database": (
        ("comes", "come"),
        "from a database of programs: the records do not tell whether a search or chance drew them.",
    ),
    "import": (("was", "were"), "imported: the records do not tell how their programs were chosen."),
}
"""Samplers without a search, with the verb and the rest of the sentence on their records."""


def _sampling_limits(samplers: pd.Series) -> Iterator[str]:
    """Sentences on records whose programs were not drawn at random, by sampler."""
    if searched := int((~samplers.isin(NO_SEARCH)).sum()):
        which = "Programs" if searched == len(samplers) else f"Programs of {counted(searched, 'record')}"
        yield f"{which} were not sampled uniformly from their space: a search proposes more fast ones."
    for sampler, sentence in NO_SEARCH.items():
        count = int((samplers == sampler).sum())
        if sentence is not None and count:
            (one, several), rest = sentence
            which = f"All records {several}"
            if count < len(samplers):
                which = f"{counted(count, 'record')} {verb(count, one, several)}"
            yield f"{which} {rest}"
