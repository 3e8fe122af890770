"""One-time cost of the models in a search: measuring their data, and training them."""

from __future__ import annotations

from collections.abc import Iterable

from ...models.checkpoints.checkpoint import load_card


def pretraining_s(checkpoints: Iterable[str]) -> float | None:
    """Seconds of the data and the training of checkpoints, from their cards; None if a card lacks them.

    Models that share training tasks share the measuring time of these tasks. An explorer learns from another
    model and requires no measurements of its own.
    """
    measuring: dict[frozenset[str], float] = {}
    trained = 0.0
    for name in dict.fromkeys(checkpoints):
        card = load_card(name)
        training = card.training
        if "seconds" not in training:
            return None
        trained += training["seconds"]
        if "environment" in training:
            continue
        if "measuring_s" not in training:
            return None
        on = frozenset((*card.split.train_tasks, *card.data.hardware_ids))
        measuring[on] = max(training["measuring_s"], measuring.get(on, 0.0))
    whole = [seconds for on, seconds in measuring.items() if not any(on < other for other in measuring)]
    return trained + sum(whole) if trained else None
