"""Time that the models of a search took once."""

from __future__ import annotations

import json

from foretune.inference.run.pretraining import pretraining_s
from foretune.models.checkpoints.checkpoint import load_card
from support.cards import edit_card
from support.checkpoints import random_checkpoint


def with_training(folder, tasks, **training):
    card = json.loads((random_checkpoint(folder) / "card.json").read_text())
    edit_card(folder, training=training, split={**card["split"], "train_tasks": tasks.split()})
    return str(folder)


def test_models_of_the_same_tasks_share_the_measuring(tmp_path):
    cost_model = with_training(tmp_path / "a", "t u v", seconds=10.0, measuring_s=100.0)
    draft = with_training(tmp_path / "b", "t u v", seconds=5.0, measuring_s=100.0)
    of_some = with_training(tmp_path / "c", "u", seconds=3.0, measuring_s=30.0)
    other = with_training(tmp_path / "d", "u w", seconds=1.0, measuring_s=50.0)
    explorer = with_training(tmp_path / "e", "t", seconds=2.0, environment={})
    assert pretraining_s([cost_model]) == 110.0
    assert pretraining_s([cost_model, draft, cost_model]) == 115.0
    assert pretraining_s([of_some, cost_model]) == 113.0
    assert pretraining_s([cost_model, other, explorer]) == 163.0


def test_a_card_that_does_not_tell_makes_it_unknown(tmp_path):
    older = with_training(tmp_path / "a", "t", seconds=10.0)
    assert pretraining_s([older]) is None
    assert pretraining_s([]) is None


def test_the_shipped_models_tell():
    cards = [load_card(name).training for name in ("cpu", "cpu-draft")]
    expected = cards[0]["measuring_s"] + sum(card["seconds"] for card in cards)
    assert pretraining_s(["cpu", "cpu-draft"]) == expected > 3600
    assert pretraining_s(["cpu-explorer"]) is not None
