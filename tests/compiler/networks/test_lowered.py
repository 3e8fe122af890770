"""A lowered network has all that a search of it takes."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
from foretune.compiler.networks import Lowering, load_network, lowered_network
from foretune.compiler.networks.alternatives.alternatives import call_counts
from foretune.compiler.tvm_compat import parse_target

SERVER = parse_target({"kind": "llvm", "mcpu": "skylake-avx512", "num-cores": 2})


@pytest.mark.parametrize("winograd", ["auto", "off"])
def test_tasks_are_the_calls_and_offers_replace_some_of_them(winograd: str) -> None:
    stages = []

    @contextmanager
    def stage(name: str):
        stages.append(name)
        yield

    network = load_network("support.networks:Convolutions", inputs=[[1, 64, 12, 12]])
    lowered = lowered_network(network, SERVER, Lowering(winograd=winograd), stage)
    (product,) = (task for task in lowered.tasks if task.flops > 1e6)
    assert (product.operator, product.weight) == ("conv2d", 3)
    weights = {task.workload_hash: task.weight for task in lowered.tasks}
    assert weights.items() <= call_counts(lowered.relax_mod).items()
    assert lowered.offers == [one.offer for one in lowered.alternatives]
    replaced = {name for offer in lowered.offers for name in offer.replaces}
    assert replaced == ({product.workload_hash} if winograd == "auto" else set())
    assert stages and lowered.lowering_s > 0
