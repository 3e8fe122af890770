"""The kernel that measures the cores' arithmetic peak."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tvm
from foretune.compiler.tvm_compat import parse_target
from foretune.inference.deploy import peak as subject
from foretune.inference.deploy.peak import fma_peak_gflops
from tvm.target.codegen import llvm_get_system_triple

pytestmark = pytest.mark.cpu


@pytest.mark.skipif("x86" not in str(llvm_get_system_triple()), reason="the assembly is that of x86")
@pytest.mark.parametrize(
    ("cpu", "rows", "columns", "lanes"), [("haswell", 6, 16, 8), ("skylake-avx512", 14, 32, 16)]
)
def test_the_inner_loop_multiplies_and_adds_in_registers(
    cpu: str, rows: int, columns: int, lanes: int
) -> None:
    target = parse_target({"kind": "llvm", "mcpu": cpu, "num-cores": 2})
    module = tvm.compile(subject._kernel(2, rows, columns).mod, target=target).mod
    blocks = re.split(r"^\.?\w+:|^\tj\w+", module.inspect_source("asm"), flags=re.MULTILINE)
    inner = max(blocks, key=lambda block: block.count("vfmadd"))
    assert inner.count("vfmadd") % (rows * columns // lanes) == 0 and "vfmadd" in inner
    assert not re.search(r"vmov\w+\s+%[xyz]mm\d+,\s*[^%]*\(", inner)  # stores none of them


def test_the_kernel_does_all_of_its_work() -> None:
    kernel = tvm.compile(subject._kernel(2, 6, 16).mod, target=parse_target("llvm"))["main"]
    left, right = (tvm.runtime.tensor(np.full((128, n), 0.5, np.float32)) for n in (6, 16))
    product = tvm.runtime.empty((2, 6, 16), "float32")
    kernel(left, right, product)
    np.testing.assert_array_equal(product.numpy(), 128 * 2000 * 0.25)


def test_the_peak_is_that_of_a_cpu() -> None:
    assert 1.0 < fma_peak_gflops(parse_target("llvm")) < 1e5
