"""Processes of a tuning run that import TVM while the main process still does the same.

Works without TVM. A run that starts them in vain ends a minute later than its processes would, but waits for
nothing.
"""

from __future__ import annotations

from pathlib import Path

from omegaconf import DictConfig

from ...compiler.host.warm import import_ahead

SEARCH_MODULE = "foretune.inference.workers.search_process"
SEARCH_ENVIRONMENT = {"TVM_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
"""Module and environment of search processes."""


def start(config: DictConfig) -> None:
    """Starts the imports of the search processes of a run that is likely to search.

    An existing database may have all schedules, which only a process with TVM can tell.
    """
    if config.search.processes != 0 and not config.require_database and not Path(config.database).exists():
        import_ahead(SEARCH_MODULE, environment=SEARCH_ENVIRONMENT)
