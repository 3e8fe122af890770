"""Sizes outside of the ranges: refused, or run by a second function of the library."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import foretune
import numpy as np
import pytest
import torch
from foretune.compiler.dynamic.symbols import DynamicShapeError, Extent, Symbol
from foretune.compiler.networks import load_network
from foretune.compiler.networks.dynamic.beyond import LARGEST, any_size
from foretune.compiler.networks.dynamic.dynamic_inputs import DynamicInputs
from foretune.inference.deploy.arrays import InputError
from foretune.inference.dynamic.result import DynamicResult
from foretune.inference.dynamic.sizes import sizes_beyond
from foretune.inference.run.config import TuneConfig, TuneConfigError
from foretune.inference.tune import run
from rich.console import Console
from support.tuning import PREDICTED
from tvm.support.cc import get_cc

BLOCK = "support.networks:TransformerBlock"


def config(folder: Path, network: str, inputs: list[list[str | int]]) -> TuneConfig:
    return TuneConfig(
        network=network,
        output=folder / "report",
        database=folder / "database",
        inputs=inputs,
        export=folder / "net.so",
        beyond="allow",
        search=PREDICTED,
    )


@pytest.mark.skipif(get_cc() is None, reason="no C++ compiler")
def test_a_library_runs_sizes_outside_of_its_ranges(tmp_path: Path) -> None:
    settings = config(tmp_path, BLOCK, [[1, "n=3:8", 32]])
    result = run(settings, Console(quiet=True))
    assert isinstance(result, DynamicResult)
    assert [one.sizes["n"] for one in result.sizes if one.beyond] == [2, 9, 17]
    network = foretune.load(tmp_path / "net.so")
    assert "n=3:8, or slower beyond" in repr(network)
    module = load_network(BLOCK, inputs=[[1, 3, 32]]).module
    assert module is not None
    rng = np.random.default_rng(0)
    for n in (500, 5, 1, 3, 8, 64, 9):  # in turns, in one process
        x = torch.from_numpy(rng.standard_normal((1, n, 32), np.float32))
        with torch.inference_mode():
            torch.testing.assert_close(network(x), module(x), rtol=1e-4, atol=1e-5)
    with pytest.raises(InputError, match="dimension 1 is 0"):
        network(np.zeros((1, 0, 32), np.float32))
    with pytest.raises(InputError, match="only sizes in the ranges are profiled"):
        network.profile(np.zeros((1, 9, 32), np.float32))


def test_a_network_of_limited_length_has_no_sizes_beyond(tmp_path: Path) -> None:
    settings = config(tmp_path, "support.networks:CausalBlock", [[1, "n=1:20", 16]])
    with pytest.raises(DynamicShapeError, match=r"beyond=allow: .*33.*; or use beyond=refuse"):
        run(replace(settings, export=None), Console(quiet=True))


def test_the_widest_range_keeps_extents_over_0() -> None:
    symbols = {"n": Symbol("n", 5, 9), "m": Symbol("m", 2, 4)}
    wide = any_size(DynamicInputs(symbols, ((Extent("n", 2, -5), Extent("m", 3, -3)),), ({},)))
    assert wide.symbols == {"n": Symbol("n", 3, LARGEST), "m": Symbol("m", 2, LARGEST)}


def test_sizes_beyond_are_each_too_large_or_too_small() -> None:
    symbols = {"n": Symbol("n", 3, 8), "m": Symbol("m", 1, 4)}
    assert sizes_beyond(symbols) == [
        {"n": 9, "m": 5},
        {"n": 17, "m": 1},
        {"n": 3, "m": 9},
        {"n": 2, "m": 1},
    ]


@pytest.mark.parametrize(
    ("beyond", "inputs", "message"),
    [
        ("run", [[1, "n=1:4", 32]], "beyond=run: use refuse or allow"),
        ("allow", [[1, 4, 32]], "beyond=allow: this network has no ranges"),
    ],
)
def test_wrong_settings_are_errors(
    beyond: str, inputs: list[list[str | int]], message: str, tmp_path: Path
) -> None:
    with pytest.raises(TuneConfigError, match=message):
        replace(config(tmp_path, BLOCK, [[1, "n=3:8", 32]]), inputs=inputs, beyond=beyond)
