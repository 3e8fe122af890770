"""Inputs whose extents are multiples of a symbol that no input has as an extent of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import foretune
import numpy as np
import pytest
import torch
from foretune.inference.deploy.arrays import InputError
from foretune.inference.dynamic.result import DynamicResult
from foretune.inference.run.config import TuneConfig
from foretune.inference.tune import run
from rich.console import Console
from support.tuning import PREDICTED
from torch import nn
from tvm.support.cc import get_cc

pytestmark = pytest.mark.skipif(get_cc() is None, reason="no C++ compiler")


@pytest.mark.parametrize("beyond", ["refuse", "allow"])
def test_a_library_solves_the_extents_for_the_symbols(beyond: str, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"output": tmp_path / "report", "database": tmp_path / "database"}
    result = run(
        TuneConfig(
            network="torch.nn:PixelUnshuffle",
            kwargs={"downscale_factor": 2},
            inputs=[[1, 2, "2*h", "2*w+2"]],
            dims={"h": "1:9", "w": "2:7"},
            export=tmp_path / "net.so",
            beyond=beyond,
            search=PREDICTED,
            **settings,
        ),
        Console(quiet=True),
    )
    assert isinstance(result, DynamicResult) and len(result.sizes) >= 8
    network = foretune.load(tmp_path / "net.so")
    assert "float32 [1, 2, 2*h, 2*w+2]" in repr(network)
    expected = nn.PixelUnshuffle(2)
    sizes = [(1, 2), (9, 7), (5, 3), *([(20, 9), (3, 1)] if beyond == "allow" else [])]
    for h, w in sizes:
        x = torch.arange(2.0 * 2 * h * (2 * w + 2)).reshape(1, 2, 2 * h, 2 * w + 2)
        assert torch.equal(network(x), expected(x))
    with pytest.raises(InputError, match=r"dimension 2 is 3, and 2\*h is expected"):
        network(np.zeros((1, 2, 3, 8), np.float32))
