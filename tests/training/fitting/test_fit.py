"""Training of one model: progress of long epochs in a log file."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from foretune.training.fitting import fit as fit_module
from foretune.training.fitting.fit import ProgressLines


def test_a_long_epoch_gets_a_line_every_few_seconds(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = [0.0]
    monkeypatch.setattr(fit_module.time, "monotonic", lambda: now[0])
    trainer: Any = SimpleNamespace(current_epoch=3, num_training_batches=40)
    lines = ProgressLines()
    with caplog.at_level(logging.INFO):
        lines.on_train_epoch_start(trainer, None)  # type: ignore[arg-type]
        for batch in range(12):
            now[0] += 1.0
            lines.on_train_batch_end(trainer, None, None, None, batch)  # type: ignore[arg-type]
    assert caplog.messages == ["epoch   3  batch 5 of 40", "epoch   3  batch 10 of 40"]
