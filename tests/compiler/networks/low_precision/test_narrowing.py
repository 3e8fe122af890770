"""Networks in bfloat16: stored types of arrays, what stays float32, outputs."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import tvm
from foretune.compiler.networks import Lowering, extract_tasks, load_network, to_relax
from foretune.compiler.networks.low_precision.stored_type import array_use, stored_narrow
from foretune.compiler.networks.lowering.lowering import LoweringError
from foretune.compiler.targets import MissingInstructionError
from foretune.compiler.templates.cpu.contraction import read_contraction
from foretune.compiler.tvm_compat import argument_buffers, as_task_module, parse_target
from foretune.inference.deploy.compile import compile_network
from foretune.inference.deploy.outputs import compare_narrow_outputs, narrow_differences
from support.contractions import Convolution, Product
from support.cpus import require, widest
from tvm import te, topi

pytestmark = pytest.mark.cpu

SERVERS = [
    parse_target({"kind": "llvm", "mcpu": cpu, "num-cores": 2}) for cpu in ("sapphirerapids", "cooperlake")
]
"""Targets with AMX, and with AVX512-BF16 alone."""

SERVER = widest(*SERVERS)
NARROW = Lowering(dtype="bfloat16")


def types(mod: tvm.IRModule) -> list[str]:
    return [dtype for _, dtype in argument_buffers(mod)]


def test_a_product_reads_and_stores_bfloat16_and_sums_in_float32() -> None:
    mod = Product(8, 32, 16, epilogue="relu").module()
    use = array_use(mod["main"])
    assert use is not None and use.multiplies and not use.moves and use.operands == {0, 1}
    changed = as_task_module(stored_narrow(mod["main"], [0, 1, 3], "bfloat16"))
    assert types(changed) == ["bfloat16", "bfloat16", "float32", "bfloat16"]
    contraction = read_contraction(changed)
    assert contraction is not None and contraction.types == ("bfloat16", "bfloat16", "float32")


def test_a_sum_is_rounded_when_it_is_complete() -> None:
    mod = Product(8, 32, 16).module()
    changed = as_task_module(stored_narrow(mod["main"], [0, 1, 2], "bfloat16"))
    contraction = read_contraction(changed)
    assert contraction is not None and contraction.types[2] == "float32" and contraction.epilogue == "T_cast"


def test_a_padded_image_stays_bfloat16() -> None:
    mod = Convolution(6, 8, 16, kernel=3, padding=1).module()
    use = array_use(mod["main"])
    assert use is not None and use.operands == {0, 1}
    text = stored_narrow(mod["main"], [0, 1, 2], "bfloat16").script()
    (line,) = [line for line in text.splitlines() if "pad_temp[" in line and "if_then_else" in line]
    assert "Cast" not in line and "T.bfloat16(0" in line


def test_what_is_moved_keeps_its_bits() -> None:
    data = te.placeholder((3, 4), "float32", name="data")
    func = te.create_prim_func([data, topi.reshape(topi.transpose(data), (6, 2))])
    use = array_use(func)
    assert use is not None and use.moves and not use.multiplies and not use.operands
    assert "Cast" not in stored_narrow(func, [0, 1], "bfloat16").script()


def test_squares_are_no_product() -> None:
    data = te.placeholder((3, 4), "float32", name="data")
    use = array_use(te.create_prim_func([data, topi.sum(data * data, 1)]))
    assert use is not None and not use.multiplies and not use.operands


@pytest.mark.parametrize(
    ("network", "inputs"),
    [("support.networks:Residual", [[1, 8, 6, 6]]), ("support.networks:Attention", [[1, 7, 16]])],
)
def test_a_network_in_bfloat16_is_as_close_to_float32_as_pytorchs(network: str, inputs: list) -> None:
    loaded = load_network(network, inputs=inputs)
    mod = to_relax(loaded, SERVER, NARROW)
    tasks = extract_tasks(mod, SERVER, loaded.name)
    products = [task for task in tasks if task.operator in ("conv2d", "dense", "batch_matmul")]
    assert products and all(task.settings["dtype"] == "bfloat16" for task in products)
    for field in mod["main"].ret_ty.fields:
        assert str(field.dtype) == "float32"
    require(SERVER)
    reference, outputs = loaded.reference_outputs(), compile_network(mod, SERVER)(*loaded.inputs)
    theirs = loaded.outputs_in(torch.bfloat16)
    assert theirs is not None
    check = compare_narrow_outputs(reference, outputs, narrow_differences(reference, theirs))
    assert check.agrees and check.max_abs_difference > 0
    assert all(np.isfinite(output).all() for output in outputs)


def test_norms_and_softmax_compute_in_float32() -> None:
    network = load_network("support.networks:Attention", inputs=[[1, 7, 16]])
    mod = to_relax(network, SERVER, NARROW)
    (softmax,) = [func for var, func in mod.functions_items() if "softmax" in var.name_hint]
    assert 'T.exp(T.Cast("bfloat16"' not in softmax.script()
    stored = [line for line in softmax.script().splitlines() if "sblock_alloc_buffer" in line]
    assert stored and not any("bfloat16" in line for line in stored)


def test_a_target_without_bfloat16_is_one_clear_error() -> None:
    network = load_network("support.networks:Attention", inputs=[[1, 7, 16]])
    target = parse_target({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 1})
    with pytest.raises(MissingInstructionError, match=r"target=x86-64-v3.*bfloat16.*avx512bf16"):
        to_relax(network, target, NARROW)
    with pytest.raises(LoweringError, match=r"lowering\.dtype=float8: use one of float32, float16"):
        Lowering(dtype="float8")
