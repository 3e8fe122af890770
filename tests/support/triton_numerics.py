"""Process that runs GPU templates in Triton's interpreter and prints their errors as JSON.

Its argument is the number of drawn sizes that the new kernels are tried at.

Interpreter and compiler exclude each other in a process. An error is the largest difference from PyTorch in
float64, over the largest output.
"""

from __future__ import annotations

import os

os.environ["TRITON_INTERPRET"] = "1"  # read when the kernels are imported

import json
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from foretune.compiler.templates.gpu.attention import Attention, BackToBack, Layout, packed
from foretune.compiler.templates.gpu.launch import by_library, launch, random_arrays, strided
from foretune.compiler.templates.gpu.problem import ACTIVATIONS, DTYPES, Problem, Product, Window
from foretune.compiler.templates.gpu.rows import NormedProduct, Rows
from foretune.compiler.templates.gpu.tiling import Tiling
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.nn import functional as F
from triton.language import bfloat16
from triton.runtime import interpreter

TORCH: dict[str, Any] = {
    "none": lambda x: x,
    "relu": F.relu,
    "gelu": F.gelu,
    "hardswish": F.hardswish,
    "silu": F.silu,
    "softplus": F.softplus,
}
TILING = Tiling(32, 32, 32, 4, 2)
LIMITS = {"fp32": 2e-6, "fp16": 1e-3, "bf16": 1.6e-2}
"""Relative errors: float16 has 11 bits, and the interpreter cuts what it stores in bfloat16 to 8 bits."""


def multiply_bfloat16() -> None:
    """Lets the interpreter multiply numbers in bfloat16, which it has as integers of 16 bits."""
    stock = interpreter.InterpreterBuilder.create_dot

    def wide(handle: Any) -> Any:
        if handle.dtype.scalar != bfloat16:
            return handle
        values = (handle.data.astype(np.uint32) << 16).view(np.float32)
        return interpreter.TensorHandle(values, interpreter.tl.float32)

    def create_dot(self: Any, a: Any, b: Any, *rest: Any) -> Any:
        return stock(self, wide(a), wide(b), *rest)

    interpreter.InterpreterBuilder.create_dot = create_dot


def expected(problem: Problem, arrays: list[torch.Tensor]) -> torch.Tensor:
    """Output of PyTorch in float64; what the first of two products stores is rounded."""
    act = TORCH[problem.activation]
    there = [array.double() for array in arrays]
    wide = dict(zip(problem.pointers, there, strict=True))
    if isinstance(problem, Attention):
        query, key, value, mask, output = strided(problem, there)
        scores = problem.scale * query @ key.mT + (0.0 if mask is None else mask)
        output.copy_(scores.softmax(-1).nan_to_num(0.0) @ value)
        return there[-1]
    if isinstance(problem, BackToBack):
        left, first, first_bias, second, second_bias, _ = wide.values()
        kept = act(left @ first + first_bias).to(arrays[0].dtype).double()
        return act(kept @ second + second_bias)
    if isinstance(problem, Window):
        image, weight = wide["data"].permute(0, 3, 1, 2), wide["weight"].permute(3, 2, 0, 1)
        sums = F.conv2d(image, weight, None, problem.stride, problem.padding).permute(0, 2, 3, 1)
    else:
        sums = wide["data"] if isinstance(problem, Rows) else wide["left"] @ wide["right"]
    found = act(sums + wide.get("bias", 0.0) + wide.get("residual", 0.0))
    if isinstance(problem, Rows) and problem.norm == "softmax":
        return found.softmax(-1)
    if isinstance(problem, NormedProduct | Rows):
        return F.layer_norm(found, found.shape[-1:], wide["scale"], wide["shift"], problem.epsilon)
    return found


def error(problem: Problem, tiling: Tiling, hidden: bool = False) -> float:
    """Relative error of a template, run by the interpreter; `hidden` masks one query and some keys out."""
    arrays = random_arrays(problem, "cpu")
    if hidden:
        mask = arrays[problem.pointers.index("mask")].view(-1, problem.queries, problem.keys)
        mask[:, 0], mask[:, :, 1] = -torch.inf, -torch.inf
    launch(problem, tiling, arrays)
    return relative(arrays[-1], expected(problem, arrays))


def library_error(problem: Problem) -> float:
    """Relative error of PyTorch's calls in the problem's own data type."""
    arrays = random_arrays(problem, "cpu")
    return relative(by_library(problem, arrays), expected(problem, arrays))


def relative(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """Largest difference over the largest value."""
    return float((found.double() - wanted).abs().max() / wanted.abs().max())


def heads(
    batch: int, count: int, queries: int, keys: int, width: int, mask: str = "", **more: Any
) -> Attention:
    """Attention whose heads lie side by side, with one mask for all heads of a batch."""
    of_query, of_key = packed(batch, queries, count, width), packed(batch, keys, count, width)
    of_mask = Layout(batch * queries * keys, 0, queries * keys, 0, keys)
    return Attention(
        batch=batch,
        heads=count,
        queries=queries,
        keys=keys,
        width=width,
        scale=width**-0.5,
        layouts=(of_query, of_key, of_key, of_mask, of_query),
        mask=mask,
        **more,
    )


def cases() -> dict[str, tuple[Problem, Tiling]]:
    """Sizes that tiles do not divide, each activation, strides and paddings, and each data type."""
    product = Product(m=45, n=37, k=50)
    window = Window(
        batch=2, height=9, width=7, channels=5, filters=33, kernel_h=3, kernel_w=2, stride=2, padding=1
    )
    pair = BackToBack(m=70, k=40, middle=32, n=16, activation="relu")
    normed = NormedProduct(m=45, n=37, k=150, epsilon=1e-5)
    found: dict[str, tuple[Problem, Tiling]] = {
        f"product {name}": (replace(product, activation=name), TILING) for name in ACTIVATIONS
    }
    found["product whole tiles"] = Product(m=64, n=32, k=64), TILING
    found["product wide"] = product, Tiling(16, 64, 16, 4, 3)
    found["convolution"] = replace(window, activation="hardswish"), TILING
    found["convolution 1x1"] = replace(window, kernel_h=1, kernel_w=1, stride=1, padding=0), TILING
    found["product without bias"] = replace(product, bias="", activation="relu"), TILING
    mixed = {"bias": "fp32", "residual": "fp32", "output": "fp32"}
    found["product in other types"] = replace(product, **mixed), TILING
    found["convolution with residual"] = replace(window, residual="fp16", activation="relu"), TILING
    found["back to back"] = pair, TILING
    found["back to back gelu"] = replace(pair, m=32, activation="gelu"), TILING
    found["product in parts"] = replace(product, k=150, activation="gelu"), replace(TILING, parts=3)
    found["product in more parts than steps"] = product, replace(TILING, parts=4)
    found["wide product in parts"] = replace(product, m=3, n=1100, k=64), replace(TILING, parts=2)
    found["convolution in parts"] = window, Tiling(32, 32, 16, 4, 2, parts=2)
    found["convolution in parts with residual"] = replace(window, residual="fp32"), replace(TILING, parts=2)
    found["product with layer norm"] = normed, TILING
    for dtype in DTYPES:
        half = dtype if dtype != "fp32" else "fp16"
        found[f"product of {half}, {dtype} added"] = (
            replace(product, dtype=half, residual=dtype, output=dtype),
            TILING,
        )
        found[f"layer norm of parts of {half}, {dtype} added"] = (
            replace(normed, dtype=half, residual=dtype, output=dtype, scale=dtype),
            replace(TILING, parts=3),
        )
        found[f"layer norm, {dtype}"] = (
            Rows(m=5, n=37, epsilon=1e-5, dtype=dtype, residual=dtype, bias="fp32", activation="relu"),
            Tiling(1, 64, 1, 1, 1),
        )
        found[f"softmax, {dtype}"] = (
            Rows(m=5, n=37, norm="softmax", scale="", shift="", dtype=dtype),
            Tiling(1, 64, 1, 1, 1),
        )
        found[f"attention, {dtype}"] = heads(2, 3, 19, 23, 20, dtype=dtype), Tiling(16, 16, 32, 4, 2)
        found[f"masked attention, {dtype}"] = (
            heads(2, 3, 19, 23, 20, "fp32", dtype=dtype, output="fp32"),
            Tiling(16, 32, 32, 4, 2),
        )
    return found


def precision(problem: Problem) -> str:
    """The least precise data type of a problem."""
    return next(dtype for dtype in ("bf16", "fp16", "fp32") if dtype in problem.types.values())


@given(st.data())
def any_size(data: st.DataObject) -> None:
    """Each new kernel at drawn sizes is as near to PyTorch as its data type allows."""
    size, dtype = st.integers(1, 40), data.draw(st.sampled_from(list(DTYPES)))
    m, n, k = (data.draw(size) for _ in range(3))
    half = dtype if dtype != "fp32" else "fp16"
    parts = data.draw(st.integers(1, 5))
    tiling = Tiling(16, data.draw(st.sampled_from([16, 32])), 16, 4, 2, parts)
    normed = NormedProduct(m=m, n=n + 1, k=k, epsilon=1e-2, dtype=half, residual=dtype)
    rows = Rows(m=m, n=n + 1, epsilon=1e-2, dtype=dtype)
    width = data.draw(st.integers(1, 20))
    attention = heads(data.draw(st.integers(1, 2)), data.draw(st.integers(1, 3)), m, n, width, dtype=dtype)
    masked = replace(attention, mask=data.draw(st.sampled_from(list(DTYPES))), output="fp32")
    for problem, own in (
        (Product(m=m, n=n, k=k, dtype=half), tiling),
        (normed, tiling),
        (rows, Tiling(1, 64, 1, 1, 1)),
        (replace(rows, norm="softmax", scale="", shift=""), Tiling(1, 64, 1, 1, 1)),
        (attention, tiling),
        (masked, tiling),
    ):
        found = error(problem, own)
        # A row of nearly equal values is divided by little: its errors grow by 1 / sqrt(epsilon) at most.
        allowed = LIMITS[precision(problem)] * (10 if isinstance(problem, NormedProduct | Rows) else 2)
        assert found <= allowed, (problem, own, found)


if __name__ == "__main__":
    multiply_bfloat16()
    repeatable = settings(deadline=None, derandomize=True, suppress_health_check=[*HealthCheck])
    settings(repeatable, max_examples=int(sys.argv[1]))(any_size)()
    found = {name: error(*case) / LIMITS[precision(case[0])] for name, case in cases().items()}
    masked = heads(1, 2, 9, 7, 16, "fp32", dtype="fp32")
    found["a query without a key"] = error(masked, TILING, hidden=True) / LIMITS["fp32"]
    library = {
        f"library, {name}": library_error(problem) / (4 * LIMITS[precision(problem)])
        for name, (problem, _) in cases().items()
    }
    print(json.dumps(found | library))
