"""Time that the models of a search took once: measuring their data, and training them."""

from __future__ import annotations

from collections.abc import Iterable

from ..models.checkpoint import load_card


def pretraining_s(checkpoints: Iterable[str]) -> float | None:
    """Seconds of the data and of the training of checkpoints, by their cards; None where one does not tell.

    Models that were trained on the same records share the time of measuring them. An explorer is taught by
    another model and has measured nothing itself.
    """
    measuring: dict[tuple[int, int, tuple[str, ...]], float] = {}
    trained = 0.0
    for name in dict.fromkeys(checkpoints):
        card = load_card(name)
        training, data = card.training, card.data
        if "seconds" not in training:
            return None
        trained += training["seconds"]
        if "environment" in training:
            continue
        if "measuring_s" not in training:
            return None
        measuring[data.records, data.tasks, tuple(data.hardware_ids)] = training["measuring_s"]
    return trained + sum(measuring.values()) if trained else None
