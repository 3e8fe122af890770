"""Process that runs GPU templates in Triton's interpreter and prints their errors as JSON.

Interpreter and compiler exclude each other in a process. An error is the largest difference from PyTorch in
float64, over the largest output.
"""

from __future__ import annotations

import os

os.environ["TRITON_INTERPRET"] = "1"  # read when the kernels are imported

import json
from dataclasses import replace
from typing import Any

import torch
from foretune.dataset.templates.gpu.launch import by_library, launch, random_arrays
from foretune.dataset.templates.gpu.problem import ACTIVATIONS, BackToBack, Problem, Product, Window
from foretune.dataset.templates.gpu.tiling import Tiling
from torch.nn import functional as F

TORCH: dict[str, Any] = {
    "none": lambda x: x,
    "relu": F.relu,
    "gelu": F.gelu,
    "hardswish": F.hardswish,
    "silu": F.silu,
    "softplus": F.softplus,
}
TILING = Tiling(32, 32, 32, 4, 2)


def expected(problem: Problem, arrays: list[torch.Tensor]) -> torch.Tensor:
    """Output of PyTorch in float64; what the first of two products stores is rounded."""
    act = TORCH[problem.activation]
    wide = dict(zip(problem.pointers, (array.double() for array in arrays), strict=True))
    if isinstance(problem, BackToBack):
        left, first, first_bias, second, second_bias, _ = wide.values()
        kept = act(left @ first + first_bias).to(arrays[0].dtype).double()
        return act(kept @ second + second_bias)
    if isinstance(problem, Window):
        image, weight = wide["data"].permute(0, 3, 1, 2), wide["weight"].permute(3, 2, 0, 1)
        sums = F.conv2d(image, weight, None, problem.stride, problem.padding).permute(0, 2, 3, 1)
    else:
        sums = wide["left"] @ wide["right"]
    return act(sums + wide.get("bias", 0.0) + wide.get("residual", 0.0))


def error(problem: Problem, tiling: Tiling) -> float:
    """Relative error of a template, run by the interpreter."""
    arrays = random_arrays(problem, "cpu")
    launch(problem, tiling, arrays)
    return relative(arrays[-1], expected(problem, arrays))


def library_error(problem: Problem) -> float:
    """Relative error of PyTorch's calls in the problem's own data type."""
    arrays = random_arrays(problem, "cpu")
    return relative(by_library(problem, arrays), expected(problem, arrays))


def relative(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """Largest difference over the largest value."""
    return float((found.double() - wanted).abs().max() / wanted.abs().max())


def cases() -> dict[str, tuple[Problem, Tiling]]:
    """Sizes that tiles do not divide, each activation, strides and paddings."""
    product = Product(m=45, n=37, k=50)
    window = Window(
        batch=2, height=9, width=7, channels=5, filters=33, kernel_h=3, kernel_w=2, stride=2, padding=1
    )
    pair = BackToBack(m=70, k=40, middle=32, n=16, activation="relu")
    found: dict[str, tuple[Problem, Tiling]] = {
        f"product {name}": (replace(product, activation=name), TILING) for name in ACTIVATIONS
    }
    found["product whole tiles"] = Product(m=64, n=32, k=64), TILING
    found["product wide"] = product, Tiling(16, 64, 16, 4, 3)
    found["convolution"] = replace(window, activation="hardswish"), TILING
    found["convolution 1x1"] = replace(window, kernel_h=1, kernel_w=1, stride=1, padding=0), TILING
    found["product without bias"] = replace(product, bias="", activation="relu"), TILING
    mixed = {"bias": "fp32", "residual": "fp32", "output": "fp32"}
    found["product in other types"] = replace(product, **mixed), TILING  # it interprets no bfloat16
    found["convolution with residual"] = replace(window, residual="fp16", activation="relu"), TILING
    found["back to back"] = pair, TILING
    found["back to back gelu"] = replace(pair, m=32, activation="gelu"), TILING
    return found


if __name__ == "__main__":
    found = {name: error(*case) for name, case in cases().items()}
    found |= {f"library, {name}": library_error(problem) for name, (problem, _) in cases().items()}
    print(json.dumps(found))
