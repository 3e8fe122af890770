"""Data of a comparison: records, their split, and the networks that the test tasks belong to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...dataset.features.table import LabelledFeatures
from ...dataset.records.split import Split, SplitConfig, split_rows
from ...wording import counted, verb
from ..evaluation.networks import evaluation_networks, split_by_networks
from ..fitting.known_split import split_like_checkpoint
from ..fitting.run_card import data_sha256
from .config import CompareConfig
from .other_data import with_other_test_data

Load = Callable[[Path], LabelledFeatures]


@dataclass(frozen=True)
class ComparedData:
    """Records of the training, validation and test tasks."""

    data: LabelledFeatures
    config: SplitConfig
    split: Split
    """Rows of `data`, split by `config`."""
    networks: dict[str, dict[str, float]]
    facts: dict[str, Any]
    """Facts on the data for the report, as JSON values."""

    @classmethod
    def read(cls, config: CompareConfig, load: Load, log: Callable[[str], None]) -> ComparedData:
        """Dataset with its split, whose test part may be another dataset.

        Raises:
          UserError: dataset or split are not usable; the message names the next step.
        """
        data = load(config.dataset)
        networks = evaluation_networks(config.dataset, data)
        by = split_by_networks(split_like_checkpoint(config.split, data), data, networks)
        split = split_rows(data, by)
        if config.test_dataset is None:
            return cls(data, by, split, networks, _facts(data, split))
        tests = load(config.test_dataset)
        other = with_other_test_data(data, split, tests)
        of_test: dict[str, Any] = {
            "test_dataset": str(config.test_dataset),
            "common_tasks": other.common_tasks,
            "unused_tasks": len(np.unique(data.workload_hash[split.test])),
        }
        log(_test_dataset_note(of_test))
        networks = evaluation_networks(config.test_dataset, tests)
        split = split_rows(other.data, other.split)
        return cls(other.data, other.split, split, networks, _facts(other.data, split) | of_test)


def _test_dataset_note(facts: Mapping[str, Any]) -> str:
    text = f"tested on the tasks of {facts['test_dataset']}"
    if facts["common_tasks"]:
        text += f" except for {facts['common_tasks']}, whose shapes the training dataset has, too"
    if facts["unused_tasks"]:
        unused = facts["unused_tasks"]
        text += f"; {counted(unused, 'test task')} of the latter {verb(unused, 'is', 'are')} unused: "
        text += "split.test=0 trains on all of them"
    return text


def _facts(data: LabelledFeatures, split: Split) -> dict[str, Any]:
    parts = {part: split.part(part) for part in ("train", "validation", "test")}
    return {
        "sha256": data_sha256(data),
        "records": {part: len(rows) for part, rows in parts.items()},
        "tasks": {part: len(np.unique(data.workload_hash[rows])) for part, rows in parts.items()},
        "test_tasks": np.unique(data.workload_hash[split.test]).tolist(),
        "hardware_ids": np.unique(data.hardware_id).tolist(),
    }
