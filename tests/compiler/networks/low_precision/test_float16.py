"""Networks in float16: which arithmetic a target gets, generated code, outputs, GPUs."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
import tvm
from foretune.compiler.codegen.compilation import compile_module
from foretune.compiler.networks import Lowering, extract_tasks, load_network, to_relax
from foretune.compiler.networks.low_precision.stored_type import stored_narrow
from foretune.compiler.replay import trace_to_json
from foretune.compiler.spaces.measurable_space import measurable_space
from foretune.compiler.targets import MissingInstructionError
from foretune.compiler.task import Task
from foretune.compiler.templates.cpu.contraction import read_contraction
from foretune.compiler.templates.cpu.programs import template_programs
from foretune.compiler.templates.gpu.matching import matched
from foretune.compiler.tvm_compat import (
    MMA,
    WMMA,
    argument_buffers,
    design_spaces,
    make_tune_context,
    parse_target,
    tensor_core_way,
)
from foretune.inference.deploy.compile import compile_network
from foretune.inference.deploy.outputs import compare_narrow_outputs, narrow_differences
from support.contractions import Product
from support.cpus import cpu, require
from tvm.target import Target

STORED, COMPUTED = cpu("haswell"), cpu("sapphirerapids")
"""CPUs with F16C alone, and with AVX512-FP16."""

HALF = Lowering(dtype="float16")
NETWORKS = {"Residual": [[1, 8, 6, 6]], "Attention": [[1, 7, 16]]}


def tasks_of(network: str, target: Target) -> list[Task]:
    loaded = load_network(f"support.networks:{network}", inputs=NETWORKS[network])
    return extract_tasks(to_relax(loaded, target, HALF), target, network)


@pytest.mark.parametrize(("target", "sums"), [(STORED, "float32"), (COMPUTED, "float16")])
def test_the_target_decides_in_which_type_products_are_summed(target: Target, sums: str) -> None:
    (convolution,) = [task for task in tasks_of("Residual", target) if task.operator == "conv2d"]
    assert convolution.settings["dtype"] == "float16"
    types = [dtype for _, dtype in argument_buffers(convolution.mod)]
    assert types == ["float16", "float16", "float32", "float16"]
    contraction = read_contraction(convolution.mod)
    assert contraction is not None and contraction.types == ("float16", "float16", sums)


def assembly(mod: tvm.IRModule, target: Target) -> str:
    return str(compile_module(mod, target).mod.inspect_source("s"))


def product(sums: str) -> tvm.IRModule:
    func = stored_narrow(Product(8, 32, 64).module()["main"], [0, 1, 2], "float16", sums)
    return tvm.IRModule({"main": func.with_attr("global_symbol", "main")})


def test_code_converts_or_computes() -> None:
    converted, computed = assembly(product("float32"), STORED), assembly(product("float16"), COMPUTED)
    assert "vcvtph2ps" in converted and "vcvtps2ph" in converted
    assert not re.search(r"call\w*\s+__(extendhfsf2|truncsfhf2)", converted)
    assert re.search(r"v(fmadd\w+|mul)(ph|sh)\b", computed)
    assert not re.search(r"v(fmadd\w+|mul)(ph|sh)\b", converted)


def test_templates_multiply_and_add_in_float16() -> None:
    """The first template gives the exact product of integers that float16 represents."""
    mod = product("float16")
    template, program = next(template_programs(mod, COMPUTED, None))
    assert template.instruction.name == "avx512_fp16_fma"
    assert "vfmadd" in assembly(program.mod, COMPUTED) and "%zmm" in assembly(program.mod, COMPUTED)
    require(COMPUTED)
    rng = np.random.default_rng(0)
    left, right = (rng.integers(-4, 5, shape).astype(np.float16) for shape in ((8, 32), (32, 64)))
    shapes = [shape for shape, _ in argument_buffers(program.mod)]
    found = tvm.runtime.empty(shapes[-1], "float16")
    if list(shapes[1]) == [32, 64]:
        compile_module(program.mod, COMPUTED).jit()["main"](*map(tvm.runtime.tensor, (left, right)), found)
        np.testing.assert_array_equal(found.numpy(), left.astype(np.float32) @ right.astype(np.float32))


@pytest.mark.parametrize("target", [STORED, COMPUTED], ids=["stored", "computed"])
@pytest.mark.parametrize("network", NETWORKS)
def test_outputs_are_close_to_float32(network: str, target: Target) -> None:
    loaded = load_network(f"support.networks:{network}", inputs=NETWORKS[network])
    mod = to_relax(loaded, target, HALF)
    for field in getattr(mod["main"].ret_ty, "fields", [mod["main"].ret_ty]):
        assert str(field.dtype) == "float32"
    require(target)
    reference, outputs = loaded.reference_outputs(), compile_network(mod, target)(*loaded.inputs)
    theirs = loaded.outputs_in(torch.float16)
    assert theirs is not None
    check = compare_narrow_outputs(reference, outputs, narrow_differences(reference, theirs), "float16")
    assert check.agrees and 0 < check.max_abs_difference < check.tolerance / 4


def test_a_cpu_without_conversions_is_one_clear_error() -> None:
    with pytest.raises(MissingInstructionError, match=r"target=x86-64-v2 lowering\.dtype=float16.*f16c"):
        tasks_of("Attention", cpu("x86-64-v2"))


@pytest.mark.parametrize("arch", ["nvidia/nvidia-t4", "nvidia/nvidia-a100"])
def test_a_gpu_multiplies_in_tensor_cores(arch: str) -> None:
    target = parse_target(arch)
    tasks = tasks_of("Residual", target)
    (dense,) = [task for task in tasks if task.operator == "dense"]
    contraction = read_contraction(dense.mod)
    assert contraction is not None and contraction.types == ("float16", "float16", "float32")
    (convolution,) = [task for task in tasks if task.operator == "conv2d"]
    match = matched(convolution.mod)
    assert match is not None and match.problem.dtype == "fp16"


def test_tensor_core_spaces() -> None:
    target = parse_target("nvidia/nvidia-a100")
    func = stored_narrow(Product(64, 64, 64).module()["main"], [0, 1, 2], "float16")
    mod = tvm.IRModule({"main": func.with_attr("global_symbol", "main")})
    context = make_tune_context(mod, target, seed=0, space=measurable_space(target, None))
    traces = [trace_to_json(space.trace) for space in design_spaces(context, "product")]
    assert {tensor_core_way(trace) for trace in traces} == {None, WMMA, MMA}
    assert any("wmma_sync_16x16x16_f16f16f32" in trace for trace in traces)
