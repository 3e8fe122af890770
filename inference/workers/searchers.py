"""Searchers: parallel search processes, or a search in this process between measurements."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from multiprocessing.connection import Connection, wait
from pathlib import Path

from tvm.target import Target

from ...compiler.tvm_compat import available_cores
from ...dataset.hardware import Hardware
from ...dataset.measure import Executor, MeasureConfig, WorkerPool
from ...dataset.measure.worker.process import WorkerProcess, WorkerSpec
from ...dataset.measure.worker.replaceable import ReplaceableProcess, paused
from ...dataset.records.schema import FailureKind
from ..search.config import OneShotConfig
from .ahead import SEARCH_ENVIRONMENT, SEARCH_MODULE
from .base import Searcher
from .messages import RoundReply, RoundRequest

_NICENESS = 5
_MOST_BY_DEFAULT = 8  # each process holds TVM, torch and its tasks: half a gigabyte
_THRIFT = "search.processes=1 workers=1"


class InlineSearcher:
    """Search in this process while nothing is measured."""

    connection = None

    def __init__(self, spec: WorkerSpec) -> None:
        from .search_process import SearchRole  # its module is also an entry point

        self._role = SearchRole(spec.target, spec.config, **spec.settings)
        self._role.prepare()
        self._reply = RoundReply()

    def ask(self, request: RoundRequest) -> None:
        try:
            self._reply = self._role.answer(request)
        except Exception as error:  # as in a search process, an error ends one task and not the run
            self._reply = RoundReply(error=str(error).strip() or type(error).__name__)

    def reply(self) -> RoundReply:
        return self._reply

    def close(self) -> None:
        pass


class ProcessSearcher:
    """Search in a separate process. The process starts at once; the first request waits for it."""

    def __init__(self, spec: WorkerSpec) -> None:
        self.worker = ReplaceableProcess(lambda: WorkerProcess(spec))

    @property
    def is_ready(self) -> bool:
        """Whether the process has started."""
        return self.worker.current.ready

    @property
    def connection(self) -> Connection:
        return self.worker.current.connection

    @property
    def pid(self) -> int:
        return self.worker.pid

    def ask(self, request: RoundRequest) -> None:
        """Submits a request. Raises WorkerStartError if the process does not start."""
        self.worker.wait_ready().send({"op": "propose", "request": request.to_json()})

    def reply(self) -> RoundReply:
        try:
            return RoundReply.from_json(self.worker.current.receive(0.0, FailureKind.BUILD_TIMEOUT))
        except Exception:
            self.worker.replace()
            raise

    def close(self) -> None:
        self.worker.kill()


def start_searchers(
    config: OneShotConfig,
    target: Target,
    checkpoint: str | Path | None,
    hardware: Hardware,
    *,
    most: int = _MOST_BY_DEFAULT,
    nice: bool = True,
    compiles: bool = False,
) -> list[Searcher]:
    """Starts `config.processes` searchers, by default one per core up to `most`.

    A `checkpoint` of None searches without a cost model. `nice` searchers run at a lower priority than other
    work on this machine. `compiles` as in `SearchRole`. Raises the errors of `OneShotConfig.fitted`.
    """
    config = config.fitted(target)
    spec = WorkerSpec(
        "search",
        target,
        MeasureConfig(),
        environment=SEARCH_ENVIRONMENT,
        settings={
            "checkpoint": None if checkpoint is None else str(checkpoint),
            "hardware": hardware.to_json(),
            "search": asdict(config),
            "compiles": compiles,
            "niceness": _NICENESS if nice and config.processes != 0 else 0,
        },
        module=SEARCH_MODULE,
        torch=True,
        thrift=_THRIFT,
    )
    if config.processes == 0:
        return [InlineSearcher(spec)]
    by_default = max(1, min(available_cores(), _MOST_BY_DEFAULT, most))
    return [ProcessSearcher(spec) for _ in range(config.processes or by_default)]


def replied(
    searchers: Sequence[Searcher],
    asked: Collection[int],
    *beside: Connection,
    timeout_s: float | None = None,
) -> list[int]:
    """Numbers of the asked searchers that have replied.

    Waits until a searcher has replied, until one of the connections `beside` is readable, or for `timeout_s`.
    """
    connections = {
        connection: number for number in asked if (connection := searchers[number].connection) is not None
    }
    if asked and not connections:
        return list(asked)
    ready = wait([*connections, *beside], timeout_s)
    return [number for connection, number in connections.items() if connection in ready]


def held_back(searchers: Sequence[Searcher]) -> AbstractContextManager[object]:
    """Pauses search processes during the block so that they do not disturb timings."""
    return paused([searcher.worker for searcher in searchers if isinstance(searcher, ProcessSearcher)])


def hold_back(
    config: OneShotConfig, executor: Executor, searchers: Sequence[Searcher]
) -> Callable[[], AbstractContextManager[object]]:
    """Context manager for a measurement. It pauses searches as `config.overlap` specifies.

    While a process starts, only timings pause it; otherwise it would not start in time.
    """
    if config.overlap != "all" and isinstance(executor, WorkerPool):
        executor.timing_context = lambda: held_back(searchers)
    if config.overlap != "none":
        return nullcontext
    return lambda: held_back([one for one in searchers if isinstance(one, ProcessSearcher) and one.is_ready])


def alone_on(executor: Executor) -> AbstractContextManager[object]:
    """Context manager for a separate timing on this machine; the executor measures nothing meanwhile."""
    return executor.alone() if isinstance(executor, WorkerPool) else nullcontext()
