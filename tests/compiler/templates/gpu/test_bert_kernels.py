"""Kernels of transformers: divided sums, normalised rows, attention. Closed forms by hand; compiled code."""

from __future__ import annotations

from pathlib import Path

import pytest
from foretune.compiler.instruction_sets import GPUS, Gpu
from foretune.compiler.templates.gpu.attention import Attention
from foretune.compiler.templates.gpu.compilation import Compiled, Kernel, compiled
from foretune.compiler.templates.gpu.launches import WORKSPACE
from foretune.compiler.templates.gpu.problem import GpuTemplateError, Product
from foretune.compiler.templates.gpu.profiler import profile
from foretune.compiler.templates.gpu.rows import NormedProduct, Rows
from foretune.compiler.templates.gpu.tiling import LAUNCH, PROLOGUE, Tiling, candidates, cycles, ranked
from support.bert_problems import BERT, HEADS
from support.needs_triton import needs_triton

GPU = Gpu(80, processors=4, shared_bytes=1 << 17, multiply_adds=1024, load_bytes=64.0)


def test_kernels_of_a_product_in_parts() -> None:
    problem = Product(m=70, n=1500, k=256, activation="relu", residual="fp32")
    tiling = Tiling(64, 64, 32, 4, 2, parts=3)
    first, second = problem.launches(tiling)
    assert problem.workspace(tiling) == (3, 70, 1500)
    assert first.arguments == ("left", "right", WORKSPACE, WORKSPACE, WORKSPACE)
    assert first.grid == (2, 24, 3)
    assert (first.constants["BIAS"], first.constants["RESIDUAL"], first.constants["ACTIVATION"]) == (0, 0, 0)
    assert second.arguments == (WORKSPACE, "bias", "residual", "scale", "shift", "output")
    assert second.grid == (70, 2)  # 1500 columns are two blocks of 1024
    assert (second.constants["PARTS"], second.constants["ACTIVATION"], second.constants["NORM"]) == (3, 1, 0)
    # Those that are not there are passed the output.
    names = dict.fromkeys((*problem.pointers, WORKSPACE))
    assert second.passed({name: name for name in names})[3:] == ["output"] * 3
    (alone,) = problem.launches(Tiling(64, 64, 32, 4, 2))
    assert problem.workspace(Tiling(64, 64, 32, 4, 2)) is None and alone.arguments == problem.arguments


def test_a_layer_norm_needs_whole_rows() -> None:
    problem = NormedProduct(m=70, n=1500, k=256, epsilon=1e-5)
    _, second = problem.launches(Tiling(64, 64, 32, 4, 2))
    assert second.grid == (70, 1) and second.constants["BLOCK_N"] == 2048
    assert (second.constants["NORM"], second.constants["EPSILON"]) == (1, 1e-5)


def test_cycles_of_parts_by_hand() -> None:
    problem, tiling = Product(m=64, n=64, k=512), Tiling(64, 64, 32, 4, 2, parts=4)
    # Four blocks of four steps each, as in `test_cycles_by_hand`: 64 x 64 x 32 / 1024 = 128 and
    # (64 + 64) x 32 x 2 / 64 = 128 cycles.
    first = 4 * (128 + 64) + PROLOGUE
    # 64 x 64 sums of 4 bytes in 4 parts are written by 4 processors, and read by 64 blocks of a row: four of
    # them at a time on each processor, so that there are four waves.
    written = 4 * 4 * 64 * 64 / (4 * 64.0)
    second = 4 * PROLOGUE + 16 * 64 * 16 / 64.0
    assert cycles(problem, tiling, GPU) == first + LAUNCH + written + second


def test_sums_are_divided_where_processors_would_be_idle() -> None:
    few, many = Product(m=128, n=768, k=3072), Product(m=8192, n=8192, k=3072)
    for gpu in GPUS.values():
        assert max(tiling.parts for tiling in candidates(few, gpu)) > 1
        assert {tiling.parts for tiling in candidates(many, gpu)} == {1}
        for tiling in candidates(few, gpu):
            blocks = -(-128 // tiling.block_m) * -(-768 // tiling.block_n)
            assert tiling.parts == 1 or blocks * tiling.parts <= gpu.processors
    # Where a layer norm takes a second kernel anyway, parts cost little.
    normed = BERT["output with layer norm"]
    assert ranked(normed, GPUS[90])[0].parts > 1


def test_attention_of_few_rows_has_small_blocks() -> None:
    tilings = ranked(BERT["attention"], GPUS[90])
    first = tilings[0]
    assert first.block_m == 16  # 8 x 12 blocks for 132 processors
    for tiling in tilings:
        assert tiling.block_m * (tiling.block_n + 64) / (32 * tiling.warps) <= 128
    gpu = Gpu(80, processors=96, shared_bytes=1 << 17, multiply_adds=1024, load_bytes=64.0)
    # One wave of 96 blocks, each with four steps of 32 keys: 2 x 16 x 32 x 64 / 1024 = 64 cycles of products,
    # 16 x 32 / 16 = 32 of exponentials, 4 x 32 x 64 / 64 = 128 of loads.
    expected = 4 * (128 + (64 + 32) / 2) + PROLOGUE
    assert cycles(BERT["attention"], Tiling(16, 32, 64, 4, 2), gpu) == expected


def test_profiled_tilings_differ_in_their_blocks() -> None:
    def compile_(problem, tiling, gpu):
        return Compiled(tiling, (Kernel(32, 0, 1024, ""),))

    found = profile(BERT["query"], GPUS[90], 8, compile_=compile_).templates
    blocks = [(one.compiled.tiling.block_m, one.compiled.tiling.block_n) for one in found]
    assert len(found) == 8 and len(set(blocks)) > 1


def test_what_no_kernel_computes() -> None:
    with pytest.raises(GpuTemplateError, match=r"n=20000.*up to 16384 columns"):
        Rows(m=1, n=20000)
    with pytest.raises(GpuTemplateError, match="n=20000"):
        NormedProduct(m=1, n=20000, k=8, epsilon=0.0)
    with pytest.raises(GpuTemplateError, match="norm=batch: use one of layer, softmax"):
        Rows(m=1, n=8, norm="batch")
    with pytest.raises(GpuTemplateError, match="layer norm has both, softmax neither"):
        Rows(m=1, n=8, norm="softmax")
    with pytest.raises(GpuTemplateError, match=r"width=512.*up to 256 columns"):
        Attention(batch=1, heads=1, queries=1, keys=1, width=512, scale=1.0, layouts=(HEADS,) * 5)


@needs_triton
@pytest.mark.parametrize("capability", sorted(GPUS))
@pytest.mark.parametrize("name", BERT)
def test_kernels_of_bert_compile_without_spills(triton_cache: Path, name: str, capability: int) -> None:
    problem, gpu = BERT[name], GPUS[capability]
    for tiling in ranked(problem, gpu)[:1]:
        found = compiled(problem, tiling, gpu)
        assert found.rejected_by(gpu) == ""
        assert len(found.kernels) == len(problem.launches(tiling))
        for kernel, launch in zip(found.kernels, problem.launches(tiling), strict=True):
            assert kernel.stack_bytes == 0  # read first: massive spilling is reported as 32 registers
            assert 0 < kernel.registers * 32 * launch.warps <= 65536 // 2  # two blocks on a processor
            assert kernel.shared_bytes <= gpu.shared_bytes
        multiplies = "mma.sync" in found.kernels[0].assembly or "wgmma" in found.kernels[0].assembly
        assert multiplies != isinstance(problem, Rows)


@needs_triton
def test_attention_that_spills_is_seen(triton_cache: Path) -> None:
    """Scores and sums of 128 x (256 + 64) values of float32 are 320 registers a thread of four warps."""
    found = compiled(BERT["attention"], Tiling(128, 256, 64, 4, 2), GPUS[80])
    assert "spills" in found.rejected_by(GPUS[80])
