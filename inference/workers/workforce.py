"""Processes of a run, executor and searchers, which start when there is work for them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from tvm.target import Target

from ...compiler.targets import is_cpu
from ...dataset.hardware import Hardware
from ...dataset.hardware.target_hardware import target_hardware
from ...dataset.measure import Executor, ExecutorConfig, MeasureConfig, make_executor
from ...dataset.measure.executors.none import NoExecutor
from ...dataset.records.exchange import HERE, find_hardware
from ...errors import UserError
from ..search.checkpoint_fit import fitting_checkpoint
from ..search.config import OneShotConfig
from .base import Searcher
from .searchers import start_searchers


class NoCostModelError(UserError, ValueError):
    """A search without measurements has no cost model to choose candidates by."""


class Workforce:
    """Executor and searchers of a run on one target.

    Before `start`, the CPU of this machine is described without the figures that its probe measures, and
    nothing can be measured on it. Other devices are reached at once, since only they tell what they are. A
    search that does not measure has searchers alone.
    """

    def __init__(
        self,
        target: Target,
        search: OneShotConfig,
        checkpoint: str | None,
        executor: ExecutorConfig,
        measure: MeasureConfig,
        workers: int | None = None,
    ) -> None:
        """`checkpoint` and `search` are fitted to the target by `fit`; the rest goes to `make_executor`.

        Raises what `make_executor` and `find_hardware` raise.
        """
        self._target = target
        self.search = search
        """Settings of the search, fitted to the target by `fit`."""
        self.checkpoint: str | None = None
        """Cost model to search with; None before `fit`, and without one."""
        self._wanted = checkpoint
        self._of_executor = executor, target, measure, workers
        self._stack = ExitStack()
        self._fitted = self._started = False
        self._hardware: Hardware | None = None
        self._device = (executor.kind == "none" and executor.hardware) or HERE
        here = executor.kind in ("local", "none") and self._device == HERE
        self._waits = here and is_cpu(target)
        self.searchers: Sequence[Searcher] = ()
        """Searchers, none before `start`."""
        self.executor: Executor
        """Executor, one that measures nothing before `start` where it waits for it."""
        unmeasured = target_hardware(target, measured=False) if self._waits else None
        self.executor = self._made() if unmeasured is None else NoExecutor(unmeasured)

    @property
    def models(self) -> list[str]:
        """Checkpoints that are searched with: cost model and those of the strategy; none before `start`."""
        if not self._started:
            return []
        of_strategy = self.search.strategy_class.checkpoints(self.search.strategy)
        return [*([] if self.checkpoint is None else [self.checkpoint]), *of_strategy]

    def close(self) -> None:
        """Ends the processes."""
        self._stack.close()

    def hardware(self) -> Hardware:
        """Description of the device; probing it takes seconds, and happens once."""
        if self._hardware is None:
            self._hardware = self.executor.hardware()
        return self._hardware

    def fit(self) -> None:
        """Fits settings and checkpoints to the target, unless that is done.

        A run calls it before any work, so that a bad name is an error even if nothing is left to search.
        Raises NoCostModelError, and what the checkpoints raise.
        """
        if self._fitted:
            return
        self.search = self.search.fitted(self._target)
        self.checkpoint = fitting_checkpoint(self._wanted, self._target)
        if not self.search.measure and self.checkpoint is None:
            raise NoCostModelError(
                "search.measure=false: without a cost model there is nothing to choose by; name one for "
                f"{self._target.kind.name} targets in checkpoint=, or train one with foretune train"
            )
        self._fitted = True

    def start(self) -> None:
        """Starts the processes, unless they are started already.

        Raises what `fit`, the executor and the searchers raise.
        """
        if self._started:
            return
        self.fit()
        self._started = True
        if self._waits:
            self.executor, self._hardware = self._made(), None
        self.searchers = start_searchers(self.search, self._target, self.checkpoint, self.hardware())
        for searcher in self.searchers:
            self._stack.callback(searcher.close)

    def _made(self) -> Executor:
        if self.search.measure:
            return self._stack.enter_context(make_executor(*self._of_executor))
        return NoExecutor(find_hardware(self._device, self._target))
