"""The original at several sizes, in a thread that ends with the comparison."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
import torch
from foretune.compiler.networks import Network
from foretune.compiler.networks.dynamic.dynamic_inputs import dynamic_inputs
from foretune.inference.deploy.original import DRAWN, EDGE
from foretune.inference.dynamic import originals as subject
from foretune.inference.dynamic.sizes import sizes_to_compare
from torch import nn

DYNAMIC = dynamic_inputs("recorded", [["n=2:9", 4]], 1, None)


class Recorded(nn.Module):
    """Keeps the thread of each run."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: set[int] = set()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.threads.add(threading.get_ident())
        return x * 2


def recorded() -> tuple[Network, Recorded]:
    module = Recorded()
    return Network("recorded", (np.zeros((2, 4), np.float32),), module), module


def test_a_thread_runs_the_original_at_each_size() -> None:
    network, module = recorded()
    with subject.originals(network, DYNAMIC, 0) as places:
        assert [one.sizes for one in places] == sizes_to_compare(DYNAMIC.symbols)
        for one in places:
            original = one.original.result()
            assert original.inputs[0][0].shape == (one.sizes["n"], 4)
            assert original.compared_on == ([DRAWN] if one.sizes["n"] == 9 else [DRAWN, EDGE])
    assert len(module.threads) == 1 and threading.get_ident() not in module.threads


def test_sizes_that_nobody_waits_for_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, released = threading.Event(), threading.Event()

    def waiting(*_: Any, **__: Any) -> str:
        begun.set()
        assert released.wait(60)
        return "original"

    monkeypatch.setattr(subject, "Original", waiting)
    network, _ = recorded()
    with pytest.raises(RuntimeError, match="no compiler"), subject.originals(network, DYNAMIC, 0) as places:
        assert begun.wait(60)
        threading.Timer(0.1, released.set).start()
        raise RuntimeError("no compiler")
    assert places[0].original.result() == "original"
    assert all(one.original.cancelled() for one in places[1:]) and len(places) > 2
