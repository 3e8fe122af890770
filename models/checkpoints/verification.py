"""Checks of a checkpoint that need no data: its files, its card, its weights and its predictions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from ...dataset.features.table import COUNT_DIM, NO_COUNTS, CandidateFeatures, FeatureTable
from ...wording import counted, verb
from ..architectures.registry import feature_version_of
from ..scaling.normaliser import ColumnScaler, Normaliser
from .card import Card
from .checkpoint import CARD_FILE, WEIGHTS_FILE, CheckpointError, StoredNetwork, load_network

_SHARES = ("spearman", "pairwise_accuracy", "top_1", "top_5", "r2")
"""Metrics of a card whose values are at most 1."""


def problems(path_or_name: str) -> Iterator[str]:
    """Problems of a checkpoint, one sentence each; none for a good checkpoint.

    Card and weights are read as data: no file of a checkpoint can run code. Raises CheckpointNotFoundError
    if the checkpoint does not exist.
    """
    try:
        checkpoint = load_network(path_or_name)
    except CheckpointError as error:
        if isinstance(error, FileNotFoundError):
            raise
        yield str(error)  # files that do not load cannot be checked further
        return
    yield from _file_problems(checkpoint)
    yield from _card_problems(checkpoint.card)
    yield from _weight_problems(checkpoint)
    yield from _output_problems(checkpoint)


def _file_problems(checkpoint: StoredNetwork) -> Iterator[str]:
    known = {CARD_FILE, WEIGHTS_FILE}
    for file in sorted(checkpoint.path.iterdir()):
        if file.name not in known:
            yield f"{file.name} is no part of a checkpoint and is never read: remove it"


def _card_problems(card: Card) -> Iterator[str]:
    if card.feature_version != (computed := feature_version_of(card.model.name)):
        yield (
            f"it was trained on features of version {card.feature_version}, and this version of foretune "
            f"computes {computed}: train a new checkpoint with foretune train on the same dataset"
        )
    parts = {part: set(card.split.tasks(part)) for part in ("train", "validation", "test")}
    for one, other in combinations(parts, 2):
        if both := parts[one] & parts[other]:
            yield (
                f"{counted(len(both), 'task')} {verb(len(both), 'is', 'are')} in its {one} and in "
                f"its {other} part: do not trust its metrics"
            )
    for part, metrics in card.metrics.items():
        for name, value in metrics.items():
            if value is not None and (not math.isfinite(value) or (name in _SHARES and value > 1)):
                yield f"its card says {name} = {value} on the {part} part, which is impossible"


def _weight_problems(checkpoint: StoredNetwork) -> Iterator[str]:
    for name, weights in checkpoint.network.state_dict().items():
        if not weights.isfinite().all():
            yield f"the weights {name} are not all finite: train it again with a lower learning rate"


def _output_problems(checkpoint: StoredNetwork) -> Iterator[str]:
    """Problems of the predictions for made-up candidates, both typical and extreme ones."""
    for spread, kind in ((1.0, "usual"), (1e6, "extreme")):
        table = made_up_features(checkpoint.card.normaliser, spread)
        try:
            scores = _outputs(checkpoint, table)
        except ValueError as error:
            yield f"it does not predict candidates of {kind} features: {error}"
            continue
        if not np.isfinite(scores).all():
            yield f"its predictions of {kind} features are not all finite: train it again"
        elif spread == 1.0 and np.ptp(scores) == 0:
            yield "it predicts one and the same score for different candidates: train it again"


def _outputs(checkpoint: StoredNetwork, table: FeatureTable) -> NDArray[np.float32]:
    """Scores [n] of a cost model, or values [n, modes, actions] of an explorer."""
    if checkpoint.explorer is not None:
        return checkpoint.explorer.values(table)
    assert checkpoint.predictor is not None, "a network is an explorer or a cost model"
    return checkpoint.predictor.predict_table(table, np.arange(len(table)))


def made_up_features(normaliser: Normaliser, spread: float, count: int = 16) -> FeatureTable:
    """Candidates with 1 to 6 stores and decisions.

    Features are normal around the means of the training data with `spread` times its deviations.
    """
    rng = np.random.default_rng(0)

    def tokens(scaler: ColumnScaler, rows: int) -> np.ndarray:
        deviation = np.divide(
            1, scaler.inverse_deviation, out=np.zeros_like(scaler.mean), where=scaler.inverse_deviation > 0
        )
        values = scaler.mean + spread * deviation * rng.standard_normal((rows, scaler.dim))
        return values.astype(np.float32)

    def counts(rng: np.random.Generator) -> np.ndarray:
        some = rng.uniform(10, 10 + 10 * spread, COUNT_DIM) if normaliser.reads_counts else NO_COUNTS
        return some.astype(np.float32)

    hardware = tokens(normaliser.hardware, 1)[0]
    return FeatureTable.from_candidates(
        [
            CandidateFeatures(
                stores=tokens(normaliser.stores, int(rng.integers(1, 7))),
                decisions=tokens(normaliser.decisions, int(rng.integers(1, 7))),
                task=tokens(normaliser.task, 1)[0],
                hardware=hardware,
                counts=counts(rng),
            )
            for _ in range(count)
        ]
    )
