"""Processes of a run: the executor and the searchers, which start when there is work for them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from tvm.target import Target

from ...compiler.host.warm import server_pids
from ...compiler.targets import is_cpu
from ...dataset.hardware import Hardware
from ...dataset.hardware.target_hardware import target_hardware
from ...dataset.measure import Executor, ExecutorConfig, MeasureConfig, make_executor
from ...dataset.measure.executors.dry_run import NoExecutor
from ...dataset.measure.worker.process import existing_pids
from ...dataset.records.exchange import HERE, find_hardware
from ...errors import UserError
from ..run.core_timeline import STARTING
from ..search.checkpoint_fit import fitting_checkpoint
from ..search.config import OneShotConfig
from .base import Searcher
from .searchers import ProcessSearcher, start_searchers


class NoCostModelError(UserError, ValueError):
    """A search without measurements has no cost model to choose candidates with."""


class Workforce:
    """Executor and searchers of a run on one target.

    Before `start`, the description of this machine's CPU lacks the figures that the probe measures, and
    nothing can be measured on the CPU. Other devices are reached at once, because only the device can report
    its properties. A search without measurements starts only searchers.
    """

    def __init__(
        self,
        target: Target,
        search: OneShotConfig,
        checkpoint: str | None,
        executor: ExecutorConfig,
        measure: MeasureConfig,
        workers: int | None = None,
        *,
        compiles: bool = False,
    ) -> None:
        """Prepares the processes and starts none.

        `fit` fits `checkpoint` and `search` to the target, and `start_searchers` gets `compiles`.
        `make_executor` gets the other arguments. Raises the errors of `make_executor` and `find_hardware`.
        """
        self._target = target
        self.search = search
        """Settings of the search, fitted to the target by `fit`."""
        self.checkpoint: str | None = None
        """Cost model of the search; None before `fit` or without a cost model."""
        self._wanted, self._compiles = checkpoint, compiles
        self._of_executor = executor, target, measure, workers
        self._stack, self._searching = ExitStack(), ExitStack()
        self._fitted = self._started = False
        self._hardware: Hardware | None = None
        self._device = (executor.kind == "none" and executor.hardware) or HERE
        here = executor.kind in ("local", "none") and self._device == HERE
        self._waits = here and is_cpu(target)
        self.searchers: Sequence[Searcher] = ()
        """Searchers; empty before `start`."""
        self.executor: Executor
        """Executor. If it has to wait for `start`, it measures nothing until then."""
        unmeasured = target_hardware(target, measured=False) if self._waits else None
        self.executor = self._made() if unmeasured is None else NoExecutor(unmeasured)

    @property
    def models(self) -> list[str]:
        """Checkpoints of the cost model and of the strategy; empty before `start`."""
        if not self._started:
            return []
        of_strategy = self.search.strategy_class.checkpoints(self.search.strategy)
        return [*([] if self.checkpoint is None else [self.checkpoint]), *of_strategy]

    def pids(self) -> dict[str, Sequence[int]]:
        """Current processes by their part in the run."""
        searchers = [one.worker.current for one in self.searchers if isinstance(one, ProcessSearcher)]
        searching = existing_pids(searchers)
        return {**self.executor.stage_pids, "searching": searching, STARTING: server_pids()}

    def close(self) -> None:
        """Ends the processes."""
        self._stack.close()

    def hardware(self) -> Hardware:
        """Description of the device. The probe runs only once, for some seconds."""
        if self._hardware is None:
            self._hardware = self.executor.hardware()
        return self._hardware

    def fit(self) -> None:
        """Fits settings and checkpoints to the target if this is not done yet.

        A run calls this method before any work. A bad name is therefore an error even if nothing is left to
        search. Raises NoCostModelError, and the errors of the checkpoints.
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

    def start(self) -> bool:
        """Starts the processes; False if they are running already.

        Raises the errors of `fit`, of the executor and of the searchers.
        """
        if self._started:
            return False
        self.fit()
        self._started = True
        if self._waits:
            target_hardware(self._target)  # once, before processes start that would disturb the probe
            self.executor, self._hardware = self._made(), None
        self.searchers = start_searchers(
            *(self.search, self._target, self.checkpoint, self.hardware()), compiles=self._compiles
        )
        self._stack.callback(self.end_search)
        for searcher in self.searchers:
            self._searching.callback(searcher.close)
        return True

    def end_search(self) -> None:
        """Ends the search processes; the executor goes on."""
        self._searching.close()
        self.searchers = ()

    def _made(self) -> Executor:
        if self.search.measure:
            return self._stack.enter_context(make_executor(*self._of_executor))
        return NoExecutor(find_hardware(self._device, self._target))
