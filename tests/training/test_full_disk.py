"""Trainings on disks that are full or cannot be written: one error that says what is kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from foretune.dataset.records.split import SplitConfig
from foretune.files import CannotWriteError
from foretune.training import compare, finetune, train
from foretune.training.comparison.config import CompareConfig
from foretune.training.fitting.fit import LAST
from foretune.training.fitting.module import CostModelModule
from foretune.training.transfer.config import FinetuneConfig
from support.disks import FULL, refuse_writing
from support.synthetic import dataset
from support.training import settings


@pytest.fixture
def filled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dataset that every training reads."""
    data = dataset(tasks=8, per_task=12)
    monkeypatch.setattr(train, "load_features", lambda *arguments: data)
    monkeypatch.setattr(train, "evaluation_networks", lambda *arguments: {})


def test_a_disk_that_fills_up_keeps_the_finished_epochs(
    tmp_path: Path, filled: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    epochs = []

    def full(module: Any) -> None:
        epochs.append(module.current_epoch)
        if len(epochs) == 2:
            refuse_writing(monkeypatch, tmp_path, FULL)

    monkeypatch.setattr(CostModelModule, "on_train_epoch_start", full, raising=False)
    with pytest.raises(CannotWriteError, match=r"No space left.*run keeps the finished epochs, from which"):
        train.run(settings(tmp_path))
    monkeypatch.undo()
    assert next((tmp_path / "run").rglob(LAST.name)).stat().st_size > 0
    assert not (tmp_path / "checkpoint").exists()
    assert not [path for path in tmp_path.rglob("*") if "partial" in path.name or "probe" in path.name]


@pytest.mark.parametrize("field", ["run_dir", "checkpoint_dir"])
def test_a_folder_that_cannot_be_written_is_an_error_before_the_work(tmp_path: Path, field: str) -> None:
    (tmp_path / "file").touch()
    below = tmp_path / "file" / "below"
    with pytest.raises(CannotWriteError, match=rf"^{field}={below}: cannot be written \(Not a directory\)"):
        train.run(replace(settings(tmp_path), **{field: below}))
    few = FinetuneConfig("cpu", tmp_path / "none", tmp_path / "run", tmp_path / "checkpoint")
    with pytest.raises(CannotWriteError, match=rf"^{field}={below}: cannot be written"):
        finetune.run(replace(few, **{field: below}))


@pytest.mark.parametrize("field", ["run_dir", "fits_dir"])
def test_a_comparison_checks_its_folders_first(tmp_path: Path, field: str) -> None:
    (tmp_path / "file").touch()
    config = CompareConfig(
        dataset=tmp_path / "none",
        run_dir=tmp_path / "run",
        fits_dir=tmp_path / "fits",
        models=["random"],
        contestants={"random": {"chance": True}},
        baseline="random",
        split=SplitConfig(),
    )
    below = tmp_path / "file" / "below"
    with pytest.raises(CannotWriteError, match=rf"^{field}={below}: cannot be written"):
        compare.run(replace(config, **{field: below}), [], "1", lambda folder: pytest.fail("was read"))
