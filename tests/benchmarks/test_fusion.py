"""Layers of the benchmark of back-to-back fusion."""

from __future__ import annotations

import torch

from benchmarks import fusion
from benchmarks.fusion import LAYERS


def test_the_layers_are_those_of_bolt_and_mobilenet() -> None:
    assert [row.published for row in LAYERS[:10]] == [
        *(1.24, 1.34, 1.28, 1.46),
        *(1.10, 1.41, 1.87, 1.24, 1.12, 2.02),
    ]
    assert len({row.name for row in LAYERS}) == len(LAYERS) == 21
    for row in LAYERS:
        network = getattr(fusion, row.network)(**row.kwargs)
        shape = (2, *row.shape[1:]) if len(row.shape) == 2 else row.shape
        with torch.inference_mode():
            assert network(torch.zeros(shape)).shape[0] == shape[0]
