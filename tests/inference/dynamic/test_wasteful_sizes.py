"""Sizes that begin register tiles: found in made-up costs, and in those of a network."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from foretune.compiler.dynamic.symbols import DynamicShapeError, Symbol
from foretune.compiler.networks.dynamic.product_costs import ProductCost
from foretune.compiler.templates.cpu.dynamic.kernel_parameters import KernelParameters
from foretune.compiler.templates.cpu.dynamic.prediction import ProductSize
from foretune.inference.advise import AdviseConfig, run_dynamic
from foretune.inference.dynamic.wasteful_sizes import rated_sizes, wasteful_sizes
from rich.console import Console

KERNEL = KernelParameters(16, 16, 2, "rows")
"""Register tile of 16 x 32."""


def stairs(sizes: range, tile: int = 16) -> Mapping[int, list[ProductCost]]:
    """Costs of a product that takes 100 cycles for each tile, and of one that takes 1 for each row."""

    def cost(name: str, taken: float, rows: int) -> ProductCost:
        return ProductCost(name, taken, KERNEL, ProductSize(rows, 64, 64))

    return {size: [cost("tiled", 100 * -(-size // tile), size), cost("plain", size, size)] for size in sizes}


def test_a_size_after_a_full_tile_is_named_with_cheaper_ones() -> None:
    found = wasteful_sizes("n", stairs(range(120, 150)))
    assert [one.size for one in found] == [129, 145]
    first = found[0]
    assert first.longer == pytest.approx((900 + 129) / (800 + 128) - 1)
    assert first.wasted == pytest.approx(1 - (800 + 128) * 129 / 128 / (900 + 129))
    assert (first.kernel, first.rows) == ("16x32", 129)
    assert first.up_to == 134  # 5 cycles of 1029 are hardly longer


def test_sizes_in_proportion_waste_nothing() -> None:
    assert wasteful_sizes("n", stairs(range(1, 200), tile=1)) == []


def test_expected_sizes_are_rated_outside_of_the_first_ones() -> None:
    sizes = rated_sizes(Symbol("n", 1, 5000, {4000: 1.0, 4999: 1.0}))
    assert sizes[:3] == [1, 2, 3] and {3999, 4000, 4016, 4998, 5000} <= set(sizes) and 3000 not in sizes


def config(folder: Path, **changed: Any) -> AdviseConfig:
    fields = {"network": "support.networks:CausalBlock", "inputs": [[1, "n=1:33", 16]], **changed}
    return AdviseConfig(output=folder / "advice", database=folder / "database", **fields)


def test_the_command_names_sizes_of_a_network(tmp_path: Path) -> None:
    console = Console(record=True, width=200, quiet=False)
    target = {"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 1}
    found = run_dynamic(config(tmp_path, target=target), console)
    assert found.symbols == {"n": (1, 33)} and found.products > 2 and found.wasteful
    told = console.export_text()
    for one in found.wasteful:
        assert 2 <= one.size <= one.up_to <= 33 and one.wasted >= 0.02
        assert one.longer > 1 / (one.size - 1)
    assert "Sizes of n that waste a tile" in told and str(found.wasteful[0].size) in told
    written = json.loads((tmp_path / "advice" / "advice.json").read_text())
    assert written["wasteful"][0]["size"] == found.wasteful[0].size
    assert (tmp_path / "advice" / "advice.html").exists()


def test_a_gpu_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DynamicShapeError, match="dynamic shapes need a CPU"):
        run_dynamic(config(tmp_path, target={"kind": "cuda", "arch": "sm_80"}), Console(quiet=True))
