"""Choice of tasks by disagreement: which tasks are chosen, by hand, and what a round knows."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.task_selection import study

DISAGREEMENT = {f"t{number}": float(number) for number in range(10)}


class Records(SimpleNamespace):
    """Records of tasks with two programs each, of latency 1 and 2."""

    @classmethod
    def of(cls, tasks: list[str]) -> Records:
        names = np.repeat(np.array(tasks), 2)
        return cls(
            workload_hash=names,
            hardware_id=np.full(len(names), "cpu"),
            target=np.full(len(names), "llvm"),
            latency_s=np.tile([1.0, 2.0], len(tasks)),
        )

    def __len__(self) -> int:
        return len(self.workload_hash)

    def take(self, rows: np.ndarray) -> Records:
        return Records(**{name: values[rows] for name, values in vars(self).items()})


def test_the_most_disputed_tasks_are_chosen():
    rng = np.random.default_rng(0)
    assert study.by_disagreement(DISAGREEMENT, 3, rng) == ["t9", "t8", "t7"]
    half = study.half_by_disagreement(DISAGREEMENT, 4, rng)
    assert half[:2] == ["t9", "t8"] and len(set(half)) == 4
    assert len(set(study.at_random(DISAGREEMENT, 10, rng))) == 10


def test_disagreement_by_hand():
    """Members that differ by a constant agree on the order; opposite orders have a variance of 0.25."""
    members = [lambda data: np.array([0.0, 1.0, 0.0, 1.0]), lambda data: np.array([5.0, 6.0, 1.0, 0.0])]
    found = study.disagreement(members, Records.of(["same", "opposite"]))
    assert found == {"same": 0.0, "opposite": pytest.approx(0.25)}


def test_a_seed_begins_with_the_same_tasks_and_never_asks_for_tested_ones(monkeypatch):
    monkeypatch.setattr(study, "SIZES", (4, 8))
    every = [f"t{number:02}" for number in range(20)]
    parts = study.Parts(Records.of(every), pool=every[:12], validation=every[12:15], test=every[15:])
    asked: dict[str, list[set[str]]] = {}

    def train(choice: str):
        def train(tasks, seed):
            asked.setdefault(choice, []).append(set(tasks))
            return lambda data: np.arange(len(data), dtype=np.float32)[::-1] * (1 + seed)

        return train

    for choice in study.CHOICES:
        curve = study.rounds(parts, choice, 0, train(choice))
        assert [(row["tasks"], row["records"]) for row in curve] == [(4, 8), (8, 16)]
        assert all(row["spearman"] == pytest.approx(1.0) for row in curve)
        assert set().union(*asked[choice]) <= set(parts.pool)
        assert [len(tasks) for tasks in asked[choice]] == [3] * 3 + [5] * 3
    assert len({frozenset(set().union(*tasks[:3])) for tasks in asked.values()}) == 1
