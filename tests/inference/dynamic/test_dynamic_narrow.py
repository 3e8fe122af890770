"""Networks of dynamic shapes in 16 bits, from `foretune tune` to their library."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import foretune
import numpy as np
import pytest
import torch
from foretune.compiler.dynamic.symbols import DynamicShapeError
from foretune.compiler.networks import Lowering, load_network
from foretune.compiler.targets import MissingInstructionError, traits
from foretune.inference.dynamic.result import DynamicResult
from foretune.inference.inspect import InspectConfig, run_dynamic
from foretune.inference.run.config import TuneConfig
from foretune.inference.tune import run
from rich.console import Console
from support.cpus import HERE, multiplies
from support.tuning import PREDICTED
from tvm.support.cc import get_cc

built = pytest.mark.skipif(get_cc() is None, reason="no C++ compiler")

CONVERTS = traits(HERE).converts("float16")

NARROW = Lowering(dtype="bfloat16")
ENCODER: dict[str, Any] = {
    "network": "support.networks:CausalBlock",
    "kwargs": {"width": 32},
    "inputs": [["b=1:3", "n=1:33", 32]],
}
IMAGES: dict[str, Any] = {
    "network": "support.networks:Residual",
    "kwargs": {"channels": 24},
    "inputs": [["b=1:5", 24, 6, 6]],
}


def tuned(folder: Path, settings: dict[str, Any], lowering: Lowering = NARROW) -> DynamicResult:
    config = TuneConfig(
        **settings,
        output=folder / "report",
        database=folder / "database",
        export=folder / "network.so",
        search=PREDICTED,
        lowering=lowering,
    )
    result = run(config, Console(quiet=True))
    assert isinstance(result, DynamicResult)
    return result


def compare(
    folder: Path, settings: dict[str, Any], shapes: list[tuple[int, ...]], share: float = 2**-5
) -> None:
    """Compares the library with the original in float32, relative to the largest element of an output."""
    module = load_network(settings["network"], inputs=shapes[:1], kwargs=settings["kwargs"]).module
    library = foretune.load(folder / "network.so")
    assert [one.dtype for one in (*library.inputs, *library.outputs)].count("float32") >= 2
    for shape in shapes:
        x = torch.from_numpy(np.random.default_rng(0).standard_normal(shape, np.float32))
        with torch.inference_mode():
            expected = module(x)
        found = library(x)
        pairs = (
            zip(found, expected.values(), strict=True) if isinstance(expected, dict) else [(found, expected)]
        )
        for own, wanted in pairs:
            largest = float(wanted.abs().max())
            torch.testing.assert_close(own, wanted, rtol=0, atol=share * largest)


@built
@pytest.mark.parametrize(
    ("dtype", "instruction"),
    [
        pytest.param("bfloat16", "avx512_bf16", marks=multiplies("bfloat16")),
        pytest.param("float16", "", marks=pytest.mark.skipif(not CONVERTS, reason="this CPU lacks f16c")),
    ],
)
def test_an_encoder_is_right_at_every_size(dtype: str, instruction: str, tmp_path: Path) -> None:
    result = tuned(tmp_path, ENCODER, Lowering(dtype=dtype))
    assert not result.plain and {task["kind"] for task in result.tasks} >= {"product", "rows"}
    pairs = {one["pairs"] for task in result.tasks for table in task["tables"] for one in table["members"]}
    assert instruction in pairs
    assert all(0 < one.max_abs_difference <= one.tolerance for one in result.sizes)
    compare(tmp_path, ENCODER, [(b, n, 32) for b in (1, 3) for n in (1, 2, 7, 16, 17, 31, 33)])


@built
@multiplies("bfloat16")
def test_convolutions_are_right_for_every_batch(tmp_path: Path) -> None:
    """Filters of 24 channels are filled up to 32."""
    result = tuned(tmp_path, IMAGES)
    assert not result.plain
    widths = {one["width"] for task in result.tasks for t in task["tables"] for one in t["members"]}
    assert widths & {16, 32}
    compare(tmp_path, IMAGES, [(b, 24, 6, 6) for b in range(1, 6)])


@built
@multiplies("bfloat16")
def test_sizes_beyond_the_range_run_in_bfloat16_too(tmp_path: Path) -> None:
    result = tuned(tmp_path, {**IMAGES, "beyond": "allow"})
    assert any(one.beyond for one in result.sizes)
    compare(tmp_path, IMAGES, [(2, 24, 6, 6), (7, 24, 6, 6)])


@multiplies("bfloat16")
def test_an_outlook_has_the_kernels_of_a_run(tmp_path: Path) -> None:
    config = InspectConfig(**ENCODER, lowering=NARROW, database=tmp_path)
    outlook = run_dynamic(config, Console(quiet=True))
    members = [one for task in outlook.tasks for table in task["tables"] for one in table["members"]]
    assert members and {one["pairs"] for one in members} >= {"avx512_bf16"}


def test_a_target_without_bfloat16_is_the_error_of_fixed_shapes(tmp_path: Path) -> None:
    older = {**ENCODER, "target": {"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 1}}
    with pytest.raises(MissingInstructionError, match=r"target=x86-64-v3.*avx512bf16"):
        tuned(tmp_path, older)
    with pytest.raises(MissingInstructionError, match=r"target=x86-64-v3.*avx512bf16"):
        run_dynamic(InspectConfig(**older, lowering=NARROW, database=tmp_path), Console(quiet=True))


@multiplies("int8")
def test_quantised_networks_have_fixed_shapes(tmp_path: Path) -> None:
    with pytest.raises(
        DynamicShapeError,
        match=r"lowering\.dtype=int8: dynamic shapes do not support it; use bfloat16 or float32, or fixed",
    ):
        tuned(tmp_path, ENCODER, Lowering(dtype="int8"))
