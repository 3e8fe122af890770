"""GPU templates: tilings by hand, numerics by the interpreter, code by ahead-of-time compilation."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tvm
from foretune.compiler.instruction_sets import GPUS, Gpu
from foretune.compiler.targets import traits
from foretune.compiler.templates.gpu.attention import BackToBack
from foretune.compiler.templates.gpu.compilation import Compiled, Kernel, compiled
from foretune.compiler.templates.gpu.problem import (
    ACTIVATIONS,
    DTYPES,
    GpuTemplateError,
    Problem,
    Product,
    Window,
)
from foretune.compiler.templates.gpu.profiler import profile
from foretune.compiler.templates.gpu.tiling import Tiling, candidates, cycles, ranked
from foretune.compiler.tvm_compat import parse_target
from foretune.inference.deploy.compile import compile_network
from hypothesis import given
from hypothesis import strategies as st
from support.bert_problems import BERT
from support.gpu_networks import lowered, with_templates
from support.needs_triton import needs_triton
from support.paths import ROOT
from support.template_text import SPARE

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
    assert strided.grid(tiling) == (2, 2, 1)
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
    kernel = Kernel(
        registers=32,
        stack_bytes=8 if tiling.block_m == 128 else 0,
        shared_bytes=10**9 if tiling.warps == 8 else 1000,
        assembly="",
    )
    return Compiled(tiling, (kernel,))


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
@pytest.mark.parametrize("sizes", [10, pytest.param(25, marks=pytest.mark.long)])
def test_templates_compute_what_pytorch_does_and_new_kernels_at_any_size(sizes: int) -> None:
    """A process runs them in Triton's interpreter. Errors are in parts of what the data type allows."""
    printed = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "support" / "triton_numerics.py"), str(sizes)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert printed.returncode == 0, printed.stderr[-4000:]
    errors: Mapping[str, float] = json.loads(printed.stdout.splitlines()[-1])
    assert len(errors) == 2 * (len(ACTIVATIONS) + 15 + 6 * len(DTYPES)) + 1
    assert {name: error for name, error in errors.items() if not error < 1} == {}


@needs_triton
@pytest.mark.parametrize("capability", sorted(GPUS))
@pytest.mark.parametrize("problem", [PRODUCT, WINDOW, PAIR], ids=lambda problem: problem.kernel)
def test_templates_compile_to_tensor_cores_without_spills(
    triton_cache: Path, problem: Problem, capability: int
) -> None:
    gpu = GPUS[capability]
    tiling = next(one for one in ranked(problem, gpu) if one.block_m == 64 and one.warps == 4)
    found = compiled(problem, tiling, gpu)
    assert found.rejected_by(gpu) == ""
    (kernel,) = found.kernels
    assert kernel.stack_bytes == 0
    assert tiling.sums_per_thread < found.registers <= 255
    assert 0 < found.shared_bytes <= gpu.shared_bytes
    instruction = "wgmma.mma_async" if capability == 90 else "mma.sync"
    assert instruction in kernel.assembly
    assert "cp.async" in kernel.assembly  # loads beside the multiply-adds
    assert re.search(r"^\.version 8\.", kernel.assembly, re.MULTILINE)  # drivers of CUDA 13 read it
    assert kernel.assembly.count(".param .") == len(problem.arguments) + len(problem.sizes) + SPARE


@needs_triton
def test_a_template_that_spills_is_seen(triton_cache: Path) -> None:
    """128 x 256 float32 sums are 256 registers a thread of four warps, one more than there are."""
    found = compiled(PRODUCT, Tiling(128, 256, 16, 4, 2), GPUS[80])
    assert found.kernels[0].stack_bytes > 0
    assert "spills" in found.rejected_by(GPUS[80])


def test_without_triton_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton", None)
    with pytest.raises(GpuTemplateError, match="pip install --no-deps triton"):
        compiled(PRODUCT, Tiling(64, 64, 32, 4, 2), GPUS[80])


ON_GPU: dict[str, Problem] = {
    "product": PRODUCT,
    "convolution": WINDOW,
    "pair": PAIR,
    **{name: replace(problem, dtype="fp16") for name, problem in BERT.items()},
}


@pytest.mark.gpu
@needs_triton
@pytest.mark.parametrize("name", ON_GPU)
def test_templates_compute_what_pytorch_does_on_a_gpu(name: str) -> None:
    import torch
    from foretune.compiler.templates.gpu.launch import by_library, launch, random_arrays

    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    gpu = traits(parse_target("cuda")).gpu
    if gpu is None:
        pytest.skip("its GPU has no templates")
    problem = ON_GPU[name]
    for template in profile(problem, gpu, 3).templates:
        arrays = random_arrays(problem, "cuda")
        expected = by_library(problem, arrays)
        launch(problem, template.compiled.tiling, arrays)
        torch.testing.assert_close(arrays[-1].double(), expected.double(), rtol=2e-2, atol=5e-3)


@pytest.mark.gpu
@needs_triton
def test_a_template_and_its_rivals_are_timed_on_a_gpu() -> None:
    """Each does the same work, on the same arrays: none can be 50 times as fast as another."""
    import torch
    from foretune.compiler.templates.gpu.launch import compiler_latency_s, latency_s, library_latency_s

    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    template = profile(PRODUCT, GPUS[80], 1).templates[0].compiled
    ours_s = latency_s(PRODUCT, template)
    for rival_s in (library_latency_s(PRODUCT), compiler_latency_s(PRODUCT)):
        assert 1 / 50 < ours_s / rival_s < 50


@pytest.mark.gpu
@needs_triton
@pytest.mark.parametrize(("name", "expected"), [("block", 3), ("layer", 5), ("library", 5), ("early", 3)])
def test_a_network_launches_templates_on_a_gpu(name: str, expected: int) -> None:
    if not tvm.cuda(0).exist:
        pytest.skip("no CUDA device")
    target = parse_target("cuda")
    gpu = traits(target).gpu
    if gpu is None:
        pytest.skip("its GPU has no templates")
    network, mod, _ = lowered(name, target)
    placed, count = with_templates(mod, lambda problem: profile(problem, gpu, 1).templates[0].compiled)
    assert count == expected
    (output,) = compile_network(placed, target)(*network.inputs)
    (reference,) = network.reference_outputs()
    np.testing.assert_allclose(output, reference, rtol=3e-2, atol=3e-2)
