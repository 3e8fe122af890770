"""The original at several sizes, in a thread that ends with the comparison."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError
from types import SimpleNamespace
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
            original = one.original()
            assert original.inputs[0][0].shape == (one.sizes["n"], 4)
            assert original.compared_on == ([DRAWN] if one.sizes["n"] == 9 else [DRAWN, EDGE])
    assert len(module.threads) == 1 and threading.get_ident() not in module.threads


def test_a_thread_computes_no_more_than_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sizes in order are 2, which has a thread, and others, which the caller computes."""
    monkeypatch.setattr(subject, "AHEAD_BYTES", 0)
    network, module = recorded()
    with subject.originals(network, DYNAMIC, 0) as places:
        first = places[0].original()
        (thread,) = module.threads
        assert places[0].original() is first and thread != threading.get_ident()
        assert places[1].original().compared_on == [DRAWN]
        assert module.threads == {thread, threading.get_ident()}


def test_sizes_that_nobody_waits_for_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, released = threading.Event(), threading.Event()
    calls: list[dict[str, bool]] = []

    def waiting(_: Network, dtype: str, **options: bool) -> Any:
        calls.append(options)
        begun.set()
        assert released.wait(60)
        return SimpleNamespace(nbytes=0)

    monkeypatch.setattr(subject, "Original", waiting)
    network, _ = recorded()
    with pytest.raises(RuntimeError, match="no compiler"), subject.originals(network, DYNAMIC, 0) as places:
        assert begun.wait(60)
        threading.Timer(0.1, released.set).start()
        raise RuntimeError("no compiler")
    with pytest.raises(CancelledError):
        places[-1].original()
    assert len(places) > 2 and calls == [{"once": False}]
