"""Tuning of the one task of `support.checkpoints` in this process."""

from __future__ import annotations

from foretune.inference import OneShotConfig
from foretune.inference.tasks.tuner import NetworkTuner
from foretune.inference.tuning_database import TuningDatabase
from foretune.inference.workers.searchers import start_searchers

from .checkpoints import HARDWARE, TARGET, TASK


def tuned(checkpoint, executor, folder, strategy, **settings):
    """Tunes TASK by a checkpoint (None for none); returns its result and the database in `folder`."""
    config = OneShotConfig(strategy, processes=0, finalists=0, **settings)
    database = TuningDatabase(folder, TARGET, HARDWARE)
    searchers = start_searchers(config, TARGET, checkpoint, HARDWARE)
    (result,) = NetworkTuner(config, executor, searchers, database).tune([TASK], [1.0])
    return result, database
