"""Networks lowered, with their tasks and the alternatives to pieces of them."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import dataclass

import tvm
from tvm.target import Target

from ..task import Task
from .alternatives.alternative_kinds import find_alternatives
from .alternatives.alternatives import Alternative, Offer
from .extraction import extract_tasks, to_relax
from .loading import Network
from .lowering.buildable import Stage
from .lowering.lowering import Lowering


@dataclass(frozen=True, eq=False)
class LoweredNetwork:
    """A module of `to_relax`, with everything that a search of it needs."""

    relax_mod: tvm.IRModule
    tasks: list[Task]
    alternatives: list[Alternative]
    lowering_s: float
    """Seconds that `to_relax` took."""

    @property
    def offers(self) -> list[Offer]:
        """The alternatives as far as tuning needs them."""
        return [alternative.offer for alternative in self.alternatives]


def lowered_network(
    network: Network, target: Target, lowering: Lowering, stage: Stage = nullcontext
) -> LoweredNetwork:
    """The network in the form that a search takes. Raises the errors of `to_relax`."""
    began = time.perf_counter()
    relax_mod = to_relax(network, target, lowering, stage)
    lowering_s = time.perf_counter() - began
    tasks = extract_tasks(relax_mod, target, network.name)
    return LoweredNetwork(relax_mod, tasks, find_alternatives(relax_mod, target, lowering), lowering_s)
