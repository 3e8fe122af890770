"""GPU templates: tilings by hand, numerics by the interpreter, code by ahead-of-time compilation."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import tvm
from foretune.dataset.templates.gpu.compilation import Compiled, compiled
from foretune.dataset.templates.gpu.problem import (
    ACTIVATIONS,
    BackToBack,
    GpuTemplateError,
    Problem,
    Product,
    Window,
)
from foretune.dataset.templates.gpu.profiler import profile
from foretune.dataset.templates.gpu.tiling import GPUS, Gpu, Tiling, candidates, cycles, gpu_of, ranked
from foretune.dataset.tvm_compat import parse_target
from foretune.inference.deploy.compile import compile_network
from hypothesis import given
from hypothesis import strategies as st
from support.gpu_networks import lowered, with_templates
from support.paths import ROOT
from support.template_text import SPARE

needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")

PRODUCT = Product(m=512, n=512, k=512, activation="gelu")
WINDOW = Window(batch=1, height=56, width=56, channels=64, filters=64, kernel_h=3, kernel_w=3, padding=1)
PAIR = BackToBack(m=16384, k=256, middle=64, n=16, activation="relu")


def test_sizes_of_problems() -> None:
    assert (WINDOW.output_size, WINDOW.rows, WINDOW.columns, WINDOW.depth) == ((56, 56), 3136, 64, 576)
    strided = Window(
        batch=2, height=9, width=7, channels=5, filters=33, kernel_h=3, kernel_w=2, stride=2, padding=1
    )
    assert (strided.output_size, strided.rows) == ((5, 4), 40)
    tiling = Tiling(32, 32, 32, 4, 2)
    assert strided.grid(tiling) == (2, 2)
    assert PAIR.grid(tiling) == (512,)
    assert [len(problem.shapes) for problem in (PRODUCT, WINDOW, PAIR)] == [4, 4, 6]
    bare = Product(m=3, n=5, k=7, bias="", residual="fp32", output="bf16", dtype="bf16")
    assert dict(bare.types) == {"left": "bf16", "right": "bf16", "residual": "fp32", "output": "bf16"}
    assert bare.shapes == [(3, 7), (7, 5), (3, 5), (3, 5)]


def test_what_no_template_computes() -> None:
    with pytest.raises(GpuTemplateError, match="activation=mish"):
        Product(m=1, n=1, k=1, activation="mish")
    with pytest.raises(GpuTemplateError, match="dtype=fp32"):
        Product(m=1, n=1, k=1, dtype="fp32")
    with pytest.raises(GpuTemplateError, match="residual=int8"):
        Product(m=1, n=1, k=1, residual="int8")
    with pytest.raises(GpuTemplateError, match="output=: use"):
        Product(m=1, n=1, k=1, output="")
    with pytest.raises(GpuTemplateError, match=r"residual=fp16.*one after the other"):
        BackToBack(m=64, k=64, middle=16, n=16, residual="fp16")
    for width in (8, 48):
        with pytest.raises(GpuTemplateError, match=f"middle={width}"):
            BackToBack(m=64, k=64, middle=width, n=16)


def test_resources_of_a_tiling() -> None:
    tiling = Tiling(128, 64, 32, 4, 3)
    assert tiling.sums_per_thread == 128 * 64 / 128
    assert tiling.shared_bytes == 3 * (128 + 64) * 32 * 2


@given(m=st.integers(1, 5000), n=st.integers(1, 5000), capability=st.sampled_from(sorted(GPUS)))
def test_candidates_keep_the_guidelines(m: int, n: int, capability: int) -> None:
    gpu = GPUS[capability]
    found = list(candidates(Product(m=m, n=n, k=64), gpu))
    assert found
    for tiling in found:
        assert tiling.warps in (4, 8)
        assert tiling.sums_per_thread <= 128
        assert tiling.shared_bytes <= gpu.shared_bytes
        assert tiling.block_m < 2 * max(m, 32) and tiling.block_n < 2 * max(n, 32)


def test_a_pair_of_products_has_blocks_of_whole_rows() -> None:
    assert {tiling.block_n for tiling in candidates(PAIR, GPUS[80])} == {64}


def test_cycles_by_hand() -> None:
    gpu = Gpu(80, processors=2, shared_bytes=1 << 17, multiply_adds=1024, load_bytes=64.0)
    problem = Product(m=256, n=64, k=64)
    # Four blocks on two processors are two waves; each block has two steps, whose 64 x 64 x 32 multiply-adds
    # take 128 cycles and whose 128 x 32 values take 128: with two stages, half of one waits for the other.
    tiling = Tiling(64, 64, 32, 4, 2)
    assert cycles(problem, tiling, gpu) == 2 * (2 * (128 + 64) + 1500)
    small, large = Product(m=64, n=64, k=512), Product(m=8192, n=8192, k=512)
    first = [ranked(problem, GPUS[80])[0] for problem in (small, large)]
    assert first[0].block_m * first[0].block_n < first[1].block_m * first[1].block_n  # guideline iii


def made_up(problem: Problem, tiling: Tiling, gpu: Gpu) -> Compiled:
    """Compilation in which tiles of 128 rows spill and eight warps need too much shared memory."""
    return Compiled(
        tiling,
        registers=32,
        stack_bytes=8 if tiling.block_m == 128 else 0,
        shared_bytes=10**9 if tiling.warps == 8 else 1000,
        assembly="",
    )


def test_the_profiler_rejects_spills_and_too_much_shared_memory() -> None:
    found = profile(Product(m=4096, n=4096, k=512), GPUS[80], 200, compile_=made_up)
    assert found.templates
    assert all(one.compiled.tiling.block_m != 128 for one in found.templates)
    assert all(one.compiled.tiling.warps == 4 for one in found.templates)
    assert set(found.rejected) == {"spills 8 bytes a thread", "1000000000 bytes of shared memory"}
    assert all(one.latency_s is None for one in found.templates)


def test_what_is_measured_decides() -> None:
    def measure(problem: Problem, one: Compiled) -> float:
        return 1.0 / one.tiling.block_k + one.tiling.block_n / 1e6

    problem = Product(m=4096, n=4096, k=512)
    by_form = profile(problem, GPUS[80], 6, compile_=made_up)
    measured = profile(problem, GPUS[80], 6, compile_=made_up, measure=measure)
    assert {one.compiled.tiling for one in measured.templates} == {
        one.compiled.tiling for one in by_form.templates
    }
    latencies = [one.latency_s or 0.0 for one in measured.templates]
    assert latencies == sorted(latencies) and latencies[0] > 0


@needs_triton
def test_templates_compute_what_pytorch_does() -> None:
    printed = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "support" / "triton_numerics.py")],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    errors: Mapping[str, float] = json.loads(printed.splitlines()[-1])
    assert len(errors) == 2 * (len(ACTIVATIONS) + 9)
    # float16 has 11 bits; an output is rounded once, that of a pair's first product before.
    # The library rounds each step.
    limits = {name: 4e-3 if name.startswith("library") else 1e-3 for name in errors}
    assert {name: error for name, error in errors.items() if not error < limits[name]} == {}


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Triton's cache, apart from that of the user."""
    folder = tmp_path_factory.mktemp("triton")
    os.environ["TRITON_CACHE_DIR"] = str(folder)
    return folder


@needs_triton
@pytest.mark.parametrize("capability", sorted(GPUS))
@pytest.mark.parametrize("problem", [PRODUCT, WINDOW, PAIR], ids=lambda problem: problem.kernel)
def test_templates_compile_to_tensor_cores_without_spills(
    cache: Path, problem: Problem, capability: int
) -> None:
    gpu = GPUS[capability]
    tiling = next(one for one in ranked(problem, gpu) if one.block_m == 64 and one.warps == 4)
    found = compiled(problem, tiling, gpu)
    assert found.rejected_by(gpu) == ""
    assert found.stack_bytes == 0
    assert tiling.sums_per_thread < found.registers <= 255
    assert 0 < found.shared_bytes <= gpu.shared_bytes
    instruction = "wgmma.mma_async" if capability == 90 else "mma.sync"
    assert instruction in found.assembly
    assert "cp.async" in found.assembly  # loads beside the multiply-adds
    assert re.search(r"^\.version 8\.", found.assembly, re.MULTILINE)  # drivers of CUDA 13 read it
    assert found.assembly.count(".param .") == len(problem.arguments) + len(problem.sizes) + SPARE


@needs_triton
def test_a_template_that_spills_is_seen(cache: Path) -> None:
    """128 x 256 float32 sums are 256 registers a thread of four warps, one more than there are."""
    found = compiled(PRODUCT, Tiling(128, 256, 16, 4, 2), GPUS[80])
    assert found.stack_bytes > 0
    assert "spills" in found.rejected_by(GPUS[80])


def test_without_triton_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton", None)
    with pytest.raises(GpuTemplateError, match="pip install --no-deps triton"):
        compiled(PRODUCT, Tiling(64, 64, 32, 4, 2), GPUS[80])


@pytest.mark.gpu
@needs_triton
def test_a_template_computes_what_its_rivals_do_and_keeps_pace_on_a_gpu() -> None:
    import torch
    from foretune.dataset.templates.gpu.launch import (
        by_library,
        compiler_latency_s,
        latency_s,
        launch,
        library_latency_s,
        random_arrays,
    )

    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    template = profile(PRODUCT, GPUS[80], 1).templates[0].compiled
    arrays = random_arrays(PRODUCT, "cuda")
    launch(PRODUCT, template.tiling, arrays)
    output, rival = arrays[-1].double(), by_library(PRODUCT, arrays).double()
    left, right, *_ = (array.double() for array in arrays)
    expected = torch.nn.functional.gelu(left @ right)
    # float16 has 11 bits: the template rounds once, the library after each step.
    largest = expected.abs().max()
    assert (output - expected).abs().max() < 1e-3 * largest
    assert (rival - expected).abs().max() < 4e-3 * largest
    own, library = latency_s(PRODUCT, template), library_latency_s(PRODUCT)
    # The library computes the same product in one kernel and the activation in another.
    assert 1 / 3 < own / library < 3
    assert 1 / 3 < compiler_latency_s(PRODUCT) / library < 3


@pytest.mark.gpu
@needs_triton
def test_a_network_launches_templates_on_a_gpu() -> None:
    if not tvm.cuda(0).exist:
        pytest.skip("no CUDA device")
    target = parse_target("cuda")
    gpu = gpu_of(target)
    if gpu is None:
        pytest.skip("its GPU has no templates")
    network, mod, _ = lowered("block", target)
    placed, count = with_templates(mod, lambda problem: profile(problem, gpu, 1).templates[0].compiled)
    assert count == 3
    (output,) = compile_network(placed, target)(*network.inputs)
    (expected,) = network.reference_outputs()
    np.testing.assert_allclose(output, expected, rtol=3e-2, atol=3e-2)
