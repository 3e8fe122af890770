"""Process that builds libraries by `foretune tune`. See `dataset.measure.worker.loop.main`."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from foretune.dataset.measure.worker.loop import main


class BuildProcess:
    """Operations of the process, which has the imports for all libraries of a network."""

    def usable(self) -> bool:
        """See Operations."""
        return True

    def prepare(self) -> None:
        """Imports Foretune; this time does not count towards `ready_s`, as for other engines."""
        from foretune.inference import tune  # noqa: F401

    def build(self, words: Sequence[str]) -> dict[str, Any]:
        """Runs `foretune tune` with these options, and describes the run."""
        from foretune.command_words import with_quotes
        from foretune.configuration import from_hydra
        from foretune.inference.dynamic.result import DynamicResult
        from foretune.inference.run.config import TuneConfig
        from foretune.inference.tune import run
        from hydra import compose, initialize_config_module
        from rich.console import Console

        began = time.perf_counter()
        with initialize_config_module("foretune.conf", version_base="1.3"):
            config = compose("tune", with_quotes(words, "tune"))
        result = run(from_hydra(config, TuneConfig), Console(quiet=True))
        found = {"seconds": time.perf_counter() - began, "tasks": len(result.tasks)}
        if isinstance(result, DynamicResult):
            found |= {"plain": result.plain, "stage_s": dict(result.stage_s)}
        return found


def _make(role: str, target: str, config: Mapping[str, Any], settings: Mapping[str, Any]) -> BuildProcess:
    return BuildProcess()


if __name__ == "__main__":
    main(_make)
