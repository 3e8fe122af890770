"""Networks lowered, with their tasks and the alternatives to pieces of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace

import tvm
from tvm.target import Target

from ..task import Task
from .alternatives.alternative_kinds import find_alternatives
from .alternatives.alternatives import Alternative, Offer
from .cached.network_cache import entry_of, may_have_entry
from .cached.stored_module import StoredModule
from .extraction import extract_tasks, to_relax
from .loading import Network
from .lowering.buildable import Stage
from .lowering.lowering import Lowering

CACHE = "cache of networks"
"""Stage that looks up a network, or keeps it."""


@dataclass(frozen=True, eq=False)
class LoweredNetwork:
    """A module of `to_relax`, with everything that a search of it needs."""

    relax_mod: tvm.IRModule
    tasks: list[Task]
    alternatives: list[Alternative]
    lowering_s: float
    """Seconds that `to_relax` took, in an earlier run if the module was cached."""

    wait_for_check: Callable[[], None] = lambda: None
    """Waits for a check that still runs. Raises its errors."""

    keep: Callable[[], None] = lambda: None
    """Keeps the module in the cache for later runs, if `cached` asked for that. Raises the check's errors."""

    @property
    def offers(self) -> list[Offer]:
        """The alternatives as far as tuning needs them."""
        return [alternative.offer for alternative in self.alternatives]


def lowered_network(
    network: Network,
    target: Target,
    lowering: Lowering,
    stage: Stage = nullcontext,
    check: Callable[[tvm.IRModule], None] | None = None,
    *,
    cached: bool = False,
    waits: bool = True,
) -> LoweredNetwork:
    """The network in the form that a search takes.

    Args:
        network: the network.
        target: target of its programs.
        lowering: options of the lowering.
        stage: a clock's context for each step, by its name.
        check: raises an error for a module that computes something else. It runs in a thread of its own.
        cached: read a module that passed its check in an earlier run; `LoweredNetwork.keep` keeps one that
            passes it in this.
        waits: wait for the end of the check. The process must compile nothing until a check has ended.

    Raises the errors of `to_relax` and of `check`.
    """
    entry = None
    if cached:
        with stage(CACHE):
            looks = may_have_entry(network, target, lowering)
            entry = entry_of(network, target, lowering) if looks else None
            found = None if entry is None else entry.load()
        if found is not None:
            return _with_tasks(found, network, target, lowering)
    began = time.perf_counter()
    relax_mod = to_relax(network, target, lowering, stage)
    made = StoredModule(relax_mod, time.perf_counter() - began)
    if check is None:
        return _with_tasks(made, network, target, lowering)

    def keep() -> None:
        checked.result()
        if cached:
            with stage(CACHE):
                place = entry or entry_of(network, target, lowering)
                if place is not None:
                    place.store(made)

    thread = ThreadPoolExecutor(1)
    checked = thread.submit(check, relax_mod)
    thread.shutdown(wait=False)
    made_here = _with_tasks(made, network, target, lowering)
    lowered = replace(made_here, wait_for_check=checked.result, keep=keep)
    if waits:
        checked.result()
    return lowered


def _with_tasks(found: StoredModule, network: Network, target: Target, lowering: Lowering) -> LoweredNetwork:
    tasks = extract_tasks(found.relax_mod, target, network.name)
    alternatives = find_alternatives(found.relax_mod, target, lowering)
    return LoweredNetwork(found.relax_mod, tasks, alternatives, found.lowering_s)
