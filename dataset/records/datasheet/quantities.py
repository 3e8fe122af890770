"""Quantities of a datasheet as text."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any

import numpy as np
import pandas as pd

from ....wording import MISSING, counted, significant


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
