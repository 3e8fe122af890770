"""Data types and their mixtures."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from .making import IMAGE, MATRIX, Table, booleans, half, integers, new, normal, uniform

BYTES = integers(4, 5, high=256, dtype=torch.uint8)
SMALL = integers(4, 5, low=-100, high=100, dtype=torch.int8)
SHORT = integers(4, 5, low=-1000, high=1000, dtype=torch.int16)
WIDE = integers(4, 5, low=-(2**40), high=2**40)

TABLE: Table = {
    "half_Linear": (new(lambda: nn.Linear(5, 3).half()), half(4, 5)),
    "half_Conv2d": (new(lambda: nn.Conv2d(4, 6, 3).half()), IMAGE.half()),
    "half_sum": (lambda x: x.sum(), half(40, 50)),
    "half_mean_of_axis": (lambda x: x.mean(-1), half(4, 900)),
    "half_softmax": (lambda x: x.softmax(-1), half(4, 5)),
    "half_LayerNorm": (new(lambda: nn.LayerNorm(5).half()), half(4, 5)),
    "half_BatchNorm2d": (new(lambda: nn.BatchNorm2d(4).half()), IMAGE.half()),
    "half_addmm": (lambda b, x, y: torch.addmm(b, x, y), half(4, 3), half(4, 5), half(5, 3)),
    "half_addmm_scaled": (
        lambda b, x, y: torch.addmm(b, x, y, beta=0.5, alpha=2),
        half(4, 3),
        half(4, 5),
        half(5, 3),
    ),
    "half_matmul": (lambda x, y: x @ y, half(2, 4, 40), half(2, 40, 3)),
    "half_baddbmm": (lambda b, x, y: torch.baddbmm(b, x, y), half(2, 4, 3), half(2, 4, 5), half(2, 5, 3)),
    "half_gelu": (nn.functional.gelu, half(4, 5)),
    "half_exp": (torch.exp, half(4, 5)),
    "half_cumsum": (lambda x: x.cumsum(-1), half(4, 5)),
    "half_sdpa": (nn.functional.scaled_dot_product_attention, *(half(1, 2, 4, 8) for _ in range(3))),
    "half_and_float": (lambda x, y: x + y, half(4, 5), MATRIX),
    "half_var": (lambda x: x.var(-1), half(4, 50)),
    "half_norm": (lambda x: x.norm(), half(4, 5)),
    "half_pool": (lambda x: nn.functional.avg_pool2d(x, 2), IMAGE.half()),
    "half_interpolate": (
        lambda x: nn.functional.interpolate(x, scale_factor=2, mode="bilinear"),
        IMAGE.half(),
    ),
    "bfloat16_Linear": (lambda x, w: (x.bfloat16() @ w.bfloat16().T).float(), MATRIX, normal(3, 5)),
    "bfloat16_sum": (lambda x: x.bfloat16().sum(-1).float(), normal(4, 50)),
    "bfloat16_arithmetic": (lambda x: (x.bfloat16() * 1.5 + 2).float(), MATRIX),
    "bfloat16_module": (
        new(lambda: nn.Sequential(_Cast(torch.bfloat16), nn.Linear(5, 3).bfloat16(), _Cast(torch.float32))),
        MATRIX,
    ),
    "bfloat16_output": (lambda x: x.bfloat16() + 1, MATRIX),
    "autocast": (lambda x, w: _autocast(x, w), MATRIX, normal(3, 5)),
    "float64": (lambda x: (x.double() ** 2).sum(-1).sqrt(), MATRIX),
    "float64_input": (lambda x: x.exp().mean(0), MATRIX.double()),
    "float64_Linear": (new(lambda: nn.Linear(5, 3).double()), MATRIX.double()),
    "integer_and_float": (lambda n, x: n * x + n, integers(4, 5), MATRIX),
    "integer_and_number": (lambda n: n * 1.5 - 2, integers(4, 5)),
    "integer_mean": (lambda n: n.float().mean(0), integers(4, 5)),
    "integers_of_types": (
        lambda a, b: (a + b, a * b),
        integers(4, 5, dtype=torch.int32),
        integers(4, 5, seed=1),
    ),
    "integer_matmul": (lambda a, b: a @ b, integers(4, 5), integers(5, 3)),
    "int8_arithmetic": (lambda x: x // 3 + x % 7, SMALL),
    "int8_sum": (lambda x: x.sum(-1), SMALL),
    "int16_arithmetic": (lambda x: (x + 5, x * 2, -x), SHORT),
    "int64_wide": (lambda x: (x + 1, x * 3, x // 5), WIDE),
    "uint8_image": (lambda x: x.float() / 255, BYTES),
    "uint8_wraps": (lambda x: x + 200, BYTES),
    "uint8_shift": (lambda x: (x >> 4, x & 15), BYTES),
    "boolean_arithmetic": (
        lambda a, b: (a * 2 + b, a.float() - b.float()),
        booleans(3, 4),
        booleans(3, 4, seed=1),
    ),
    "boolean_mask_product": (lambda x, m: x * m, MATRIX, booleans(4, 5)),
    "boolean_sum_of_float": (lambda x: (x > 0).float().mean(), MATRIX),
    "boolean_any_of_mask": (lambda m: m.any(-1, keepdim=True) & ~m, booleans(3, 5)),
    "cast_truncates": (lambda x: (x * 3).to(torch.int32), MATRIX),
    "cast_to_bool": (lambda x: x.bool(), integers(4, 5, high=2)),
    "cast_round_trip": (lambda x: x.half().float(), MATRIX),
    "cast_to_uint8": (lambda x: (x * 255).to(torch.uint8), uniform(4, 5)),
    "type_as": (lambda x, n: n.type_as(x) + x, MATRIX, integers(4, 5)),
    "result_of_scalar_tensor": (lambda x: x * torch.tensor(2, dtype=torch.float64), MATRIX),
    "view_of_bits": (lambda x: x.view(torch.int32), MATRIX),
    "numpy_constant": (lambda x: x * torch.from_numpy(np.arange(5.0, dtype=np.float32)), MATRIX),
    "fake_quantise": (
        lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -128, 127),
        MATRIX,
    ),
    "fake_quantise_channels": (
        lambda x: torch.fake_quantize_per_channel_affine(
            x, torch.full((4,), 0.1), torch.zeros(4, dtype=torch.int32), 0, -128, 127
        ),
        MATRIX,
    ),
    "int8_weights": (
        lambda x, w: x @ (w.float() * 0.02).T,
        MATRIX,
        integers(3, 5, low=-100, high=100, dtype=torch.int8),
    ),
    "packed_4_bits": (
        lambda x, w: x @ ((torch.stack([w & 15, w >> 4], -1).flatten(1).float() - 8) * 0.1).T,
        normal(2, 10),
        integers(3, 5, high=256, dtype=torch.uint8),
    ),
}


class _Cast(nn.Module):
    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.to(self.dtype)


def _autocast(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return nn.functional.linear(x, weight).float()
