"""Short searches in this process, and tuning of the one task of `support.checkpoints`."""

from __future__ import annotations

from foretune.dataset.measure import MeasureConfig
from foretune.inference import OneShotConfig
from foretune.inference.database.tuning_database import TuningDatabase
from foretune.inference.search.config import StopConfig
from foretune.inference.strategies.draft.config import DraftingConfig
from foretune.inference.workers.searchers import start_searchers

from .checkpoints import HARDWARE, TARGET, TASK
from .searchers import network_tuner

SHORT_SEARCH = OneShotConfig(
    DraftingConfig(population=64, generations=1, keep=8),
    top_k=4,
    rounds=2,
    processes=0,
    stop=StopConfig(expected_improvement=0),
    finalists=0,
)
"""Two rounds of four programs, which nothing ends earlier."""

PREDICTED = OneShotConfig(measure=False, rounds=1, extra_rounds=0)
"""Programs and kernels chosen by predictions alone."""

ONE_RUN = MeasureConfig(build_timeout_s=300, run_timeout_s=300, repeats=1, groups=1)
"""One timed run of each program, for tests whose result depends on no latency."""


def tuned(checkpoint, executor, folder, strategy, **settings):
    """Tunes TASK by a checkpoint (None for none); returns its result and the database in `folder`."""
    config = OneShotConfig(strategy, processes=0, finalists=0, **settings)
    database = TuningDatabase(folder, TARGET, HARDWARE)
    searchers = start_searchers(config, TARGET, checkpoint, HARDWARE)
    (result,) = network_tuner(config, executor, searchers, database).tune([TASK], [1.0])
    return result, database
