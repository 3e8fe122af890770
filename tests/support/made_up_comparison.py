"""A comparison of models whose predictions are drawn at random, or perfect."""

from __future__ import annotations

from typing import Any

import numpy as np
from foretune.models.metrics.network_metrics import NetworkMetrics
from foretune.models.metrics.task_metrics import evaluate
from foretune.training.comparison.fits import Entry, TaskSet
from foretune.training.comparison.result import ModelComparison


def made_up_comparison(
    *names: str,
    operators: tuple[str, ...] = ("conv2d", "dense"),
    perfect: tuple[str, ...] = (),
    programs: int = 20,
) -> ModelComparison:
    """One task of each operator with some programs; the models `perfect` predict the scores."""
    generator = np.random.default_rng(0)
    numbers = range(len(operators))
    group = np.repeat(np.arange(len(operators)), programs)
    latency_s = generator.uniform(1e-3, 1e-2, len(group))
    best_s = np.array([latency_s[group == number].min() for number in numbers])
    tasks = TaskSet(
        latency_s=latency_s,
        group=group,
        score=best_s[group] / latency_s,
        workload={number: f"task{number}" for number in numbers},
        operator=dict(zip(numbers, operators, strict=True)),
        hardware=dict.fromkeys(numbers, "cpu-test"),
        networks={},
    )
    drawn = {name: generator.random(len(group), dtype=np.float32) for name in names}
    drawn |= {name: tasks.score.astype(np.float32) for name in perfect}
    entries = [_entry(name, drawn[name], latency_s, group, operators[0]) for name in names]
    data: dict[str, Any] = {
        "sha256": "0123456789abcdef",
        "records": {"train": 100, "validation": 20, "test": len(group)},
        "tasks": {"train": 5, "validation": 1, "test": len(operators)},
        "hardware_ids": ["cpu-test"],
    }
    return ModelComparison("Cost models compared", {}, data, tasks, entries)


def _entry(name: str, prediction: Any, latency_s: Any, group: Any, network: str) -> Entry:
    of_network = NetworkMetrics(network, 2, 0.5, **dict.fromkeys(_TOP, 0.75))
    return Entry(
        name,
        0,
        prediction,
        evaluate(prediction, latency_s, group),
        [of_network],
        None,
        {"seconds": 3.0},
        False,
    )


_TOP = ("top_1", "top_5", "top_10", "top_1_sums", "top_5_sums", "top_10_sums")
