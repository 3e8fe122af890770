"""Made-up dataset with latencies that depend on stores and decisions, for tests of models and training."""

from __future__ import annotations

import numpy as np
from foretune.dataset.features.table import STORE_DIM, CandidateFeatures, FeatureTable, LabelledFeatures
from foretune.models.architectures.registry import ModelConfig
from foretune.models.checkpoints.card import Card, DataSummary, SplitSummary
from foretune.models.scaling.normaliser import Normaliser
from foretune.models.scaling.target import TargetConfig

DECISION_DIM, TASK_DIM, HARDWARE_DIM = 12, 52, 9
MODEL = ModelConfig("transformer", {"width": 16, "layers": 1, "heads": 2, "feedforward": 16})
HARDWARE = np.ones(HARDWARE_DIM, dtype=np.float32)
"""Device of 1 GFLOP/s and 1 GB/s without vectors, whose caches are faster than its memory."""
VARYING = 16  # columns of the task vector that are not always 0
OPERATORS = ("conv2d", "dense", "batch_matmul")
NETWORKS = ("resnet", "bert", "vgg")
# Real store features are redundant, too: 164 columns follow from few properties of a store.
STORE_PROPERTIES = np.random.default_rng(42).standard_normal((6, STORE_DIM)).astype(np.float32)


def candidate(rng: np.random.Generator, n_stores: int = 3, n_decisions: int = 5) -> CandidateFeatures:
    """Candidate with normal features."""
    return CandidateFeatures(
        stores=rng.standard_normal((n_stores, 6)).astype(np.float32) @ STORE_PROPERTIES,
        decisions=rng.standard_normal((n_decisions, DECISION_DIM)).astype(np.float32),
        task=task_vector(rng),
        hardware=HARDWARE,
    )


def task_vector(rng: np.random.Generator) -> np.ndarray:
    """Task vector of normal columns, with log2 of about 10^6 operations and bytes for `roofline`."""
    vector = np.zeros(TASK_DIM, dtype=np.float32)
    vector[:VARYING] = rng.standard_normal(VARYING)
    vector[46:48] = 20 + vector[10:12]
    return vector


def table(n: int, seed: int = 0) -> FeatureTable:
    """Table of candidates with 1 to 4 stores and 2 to 6 decisions."""
    rng = np.random.default_rng(seed)
    return FeatureTable.from_candidates(
        [candidate(rng, int(rng.integers(1, 5)), int(rng.integers(2, 7))) for _ in range(n)]
    )


def dataset(tasks: int = 12, per_task: int = 24, seed: int = 0, failures: float = 0.0) -> LabelledFeatures:
    """Records whose log latency is a sum over stores and decisions, scaled by the task.

    Tasks cycle through the operators; every fourth task belongs to a network.
    """
    rng = np.random.default_rng(seed)
    candidates, latency_s, rows = [], [], []
    for task in range(tasks):
        context = task_vector(rng)
        source = f"network:{NETWORKS[task // 4 % len(NETWORKS)]}" if task % 4 == 3 else "operator"
        for _ in range(per_task):
            made = candidate(rng, int(rng.integers(1, 5)), int(rng.integers(2, 7)))
            work = made.stores[:, :3].sum() / 6 + made.decisions[:, :2].sum() / 3
            candidates.append(CandidateFeatures(made.stores, made.decisions, context, made.hardware))
            latency_s.append(1e-3 * np.exp(0.4 * work + context[0]))
            rows.append((f"task{task:03d}", OPERATORS[task % len(OPERATORS)], source))
    latency = np.array(latency_s)
    needed = np.exp2([candidate.task[46:48].astype(np.float64) for candidate in candidates]) - 1
    latency[rng.random(len(latency)) < failures] = np.inf
    workload_hash, operator, source_names = (np.array(column) for column in zip(*rows, strict=True))
    return LabelledFeatures(
        features=FeatureTable.from_candidates(candidates),
        latency_s=latency,
        workload_hash=workload_hash,
        shape=workload_hash,
        operator=operator,
        source=source_names,
        hardware_id=np.full(len(rows), "cpu-test"),
        target=np.full(len(rows), "llvm"),
        instructions=needed[:, 0] / 2,
        moved_bytes=np.repeat(needed[:, 1:], 4, axis=1),
    )


def make_card(normaliser: Normaliser, model: ModelConfig = MODEL) -> Card:
    """Card of a model that is trained on two made-up tasks, validated and tested on one each."""
    return Card(
        feature_version="7",
        model=model,
        target=TargetConfig("log_score"),
        normaliser=normaliser,
        data=DataSummary("ab" * 32, records=30, tasks=3, hardware_ids=["cpu-test"], operators=["conv2d"]),
        split=SplitSummary({"by": "task", "seed": 1}, ["t0", "t1"], ["t2"], ["t3"]),
        metrics={"test": {"spearman": 0.8, "r2": float("nan")}},
        seed=5,
    )
