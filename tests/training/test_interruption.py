"""An interrupted training tells the command that continues it, which repeats nothing that was kept."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from foretune.configuration import ConfigError
from foretune.models.checkpoints.checkpoint import load_checkpoint
from foretune.training.fitting.module import CostModelModule
from foretune.training.fitting.training import LOCK, alone_in
from foretune.training.train import train_model
from support.commands import status_of
from support.locks import held_by_another_process
from support.synthetic import dataset
from support.training import settings

pytestmark = pytest.mark.usefixtures("terminal_signals")

SHORT = (
    "model=mlp",
    "model.arguments.width=8",
    "trainer.max_epochs=4",
    "data.batch_size=64",
    "data.rivals=8",
)


@pytest.fixture
def stop_at(monkeypatch) -> Iterator[Callable[..., None]]:
    """Sends a signal to this process when a training begins an epoch; epochs that begin are listed."""
    begin = CostModelModule.on_train_epoch_start

    def stop_at(epoch: int, number: signal.Signals, begun: list[int]) -> None:
        def begins(module: CostModelModule) -> None:
            if module.current_epoch == epoch and epoch not in begun:
                begun.append(epoch)
                os.kill(os.getpid(), number)
            begun.append(module.current_epoch)
            begin(module)

        monkeypatch.setattr(CostModelModule, "on_train_epoch_start", begins)

    return stop_at


def command_of(errors: str, told: str) -> list[str]:
    """Words of the command that an interruption tells to continue with."""
    (line,) = [line for line in errors.splitlines() if line.startswith("interrupted")]
    before, _, command = line.partition(": ")
    assert before == told
    program, *words = shlex.split(command)
    assert program == "foretune"
    return words


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_training_continues_with_the_command_that_it_tells(
    monkeypatch, capsys, tmp_path, stop_at, number, status
):
    monkeypatch.setattr("foretune.training.train.load_features", lambda *_: dataset(tasks=6, per_task=10))
    begun: list[int] = []
    stop_at(2, number, begun)
    assert status_of("train", f"dataset={tmp_path}/a folder", *SHORT) == status
    words = command_of(capsys.readouterr().err, "interrupted after epoch 2; to continue")
    assert words[0] == "train" and "resume=true" in words
    assert begun == [0, 1, 2]
    assert status_of(*words) == 0
    assert begun == [0, 1, 2, 2, 3]
    (written,) = Path("outputs/train").glob("*/checkpoint")
    assert load_checkpoint(written).card.training["epochs"] == 4


def test_a_training_that_has_kept_nothing_says_so(monkeypatch, capsys, stop_at):
    monkeypatch.setattr("foretune.training.train.load_features", lambda *_: dataset(tasks=6, per_task=10))
    stop_at(0, signal.SIGINT, begun := [])
    assert status_of("train", "dataset=d", *SHORT) == 130
    told = "interrupted before the end of the first epoch; to start again"
    words = command_of(capsys.readouterr().err, told)
    assert not any(word.startswith("resume") for word in words)
    assert status_of(*words) == 0 and begun == [0, 0, 1, 2, 3]


def test_a_transfer_continues_with_the_command_that_it_tells(monkeypatch, capsys, tmp_path, stop_at):
    data = dataset(tasks=12, per_task=10)
    train_model(settings(tmp_path, epochs=1), data, "1")
    source = load_checkpoint(tmp_path / "checkpoint")
    monkeypatch.setattr("foretune.training.finetune.load_with_features", lambda *_: (source, data))
    stop_at(2, signal.SIGTERM, begun := [])
    words = (f"checkpoint={tmp_path / 'checkpoint'}", "dataset=d", "trainer.max_epochs=4", "choice.k=5")
    assert status_of("finetune", *words) == 143
    again = command_of(capsys.readouterr().err, "interrupted after epoch 2; to continue")
    assert again[0] == "finetune"
    assert status_of(*again) == 0
    assert begun == [0, 1, 2, 2, 3]
    # The folder has the whole transfer, so that a further call does not repeat it.
    (written,) = Path("outputs/finetune").glob("*/checkpoint")
    written.rename(tmp_path / "before")
    assert status_of(*again) == 0
    assert begun == [0, 1, 2, 2, 3]


def test_a_second_training_in_a_folder_is_refused(tmp_path):
    config = settings(tmp_path, epochs=1)
    config.run_dir.mkdir()
    with held_by_another_process(config.run_dir / LOCK) as holder:
        told = f"another run .process {holder.pid} on .*. is training in it; .* with hydra.run.dir"
        with pytest.raises(ConfigError, match=told):
            train_model(config, dataset(tasks=6, per_task=10), "1")
        assert not (config.run_dir / "config.json").exists()
    with alone_in(config.run_dir):
        pass
