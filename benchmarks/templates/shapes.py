"""Layers of BERT-base, ResNet and MobileNetV2 as tasks, each with a bias and ReLU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import ml_dtypes
import numpy as np
import tvm
from foretune.compiler.codegen.compilation import TIMED, compile_module, entries
from foretune.compiler.operators.shared.epilogue import fuse
from foretune.compiler.operators.shared.matmul import matmul
from foretune.compiler.templates.cpu.contraction import read_contraction
from foretune.compiler.templates.cpu.depthwise import read_depthwise
from foretune.compiler.tvm_compat import as_task_module, with_layout_free
from tvm import te, topi
from tvm.target import Target

TYPES = {
    "float32": ("float32", "float32", "float32"),
    "bfloat16": ("bfloat16", "bfloat16", "float32"),
    "uint8": ("uint8", "int8", "int32"),
}
"""Data types of data, weight and sums."""


class Layer(Protocol):
    """Shape of a layer."""

    @property
    def name(self) -> str: ...

    def task(self, dtype: str) -> tvm.IRModule:
        """The layer as a task whose weight may be packed ahead of time; `dtype` is a name of TYPES."""


@dataclass(frozen=True)
class Linear:
    """Product of data and a matrix of weights."""

    rows: int
    columns: int
    depth: int

    @property
    def name(self) -> str:
        return f"dense {self.rows}x{self.columns}x{self.depth}"

    def task(self, dtype: str) -> tvm.IRModule:
        """See Layer."""
        data_type, weight_type, sums = TYPES[dtype]
        data = te.placeholder((self.rows, self.depth), data_type, name="data")
        weight = te.placeholder((self.depth, self.columns), weight_type, name="weight")
        return _task(data, weight, matmul(data, weight, sums), (self.columns,))


@dataclass(frozen=True)
class Convolution:
    """Convolution of a square image, which keeps its size."""

    size: int
    channels: int
    filters: int
    kernel: int

    @property
    def name(self) -> str:
        return f"conv {self.size} {self.channels}-{self.filters} {self.kernel}x{self.kernel}"

    def task(self, dtype: str) -> tvm.IRModule:
        """See Layer."""
        weight = (self.kernel, self.kernel, self.channels, self.filters)
        return _convolution(dtype, self.size, self.channels, weight)


@dataclass(frozen=True)
class Depthwise:
    """Depthwise convolution of a square image, 3x3."""

    size: int
    channels: int
    stride: int

    @property
    def name(self) -> str:
        return f"depthwise {self.size} {self.channels} 3x3{f' / {self.stride}' if self.stride > 1 else ''}"

    def task(self, dtype: str) -> tvm.IRModule:
        """See Layer."""
        weight = (3, 3, 1, self.channels)
        return _convolution(dtype, self.size, self.channels, weight, self.stride, groups=self.channels)


PRODUCTS = (Linear(128, 768, 768), Linear(128, 3072, 768), Linear(128, 768, 3072))
"""Linear layers of BERT-base at a sequence of 128."""

CONVOLUTIONS = (
    Convolution(56, 64, 64, 3),
    Convolution(28, 128, 128, 3),
    Convolution(14, 256, 256, 3),
    Convolution(7, 512, 512, 3),
    Convolution(56, 64, 256, 1),
    Convolution(14, 1024, 256, 1),
)
"""Layers of ResNet-18 and ResNet-50."""

DEPTHWISE = (
    Depthwise(112, 32, 1),
    Depthwise(56, 96, 2),
    Depthwise(56, 144, 1),
    Depthwise(28, 192, 1),
    Depthwise(14, 576, 1),
    Depthwise(7, 960, 1),
)
"""Layers of MobileNetV2."""


def layers() -> Iterator[Layer]:
    """All layers."""
    yield from (*PRODUCTS, *CONVOLUTIONS, *DEPTHWISE)


def flops_of(module: tvm.IRModule) -> int:
    """Multiplications and additions of a product or a convolution."""
    if (layer := read_depthwise(module)) is not None:
        return 2 * layer.images * layer.rows * layer.columns * layer.channels * layer.taps
    task = read_contraction(module)
    return 2 * task.batch_count * task.row_count * task.column.extent * task.depth


def values_of(shape: tuple[int, ...], dtype: str) -> Any:
    """Array of small whole numbers."""
    values = np.random.default_rng(0).integers(0, 8, shape)
    return values.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def warm_call(module: tvm.IRModule, target: Target) -> Callable[[], object]:
    """A call of a scheduled module, whose arguments are `values_of` and stay the same."""
    program, buffers = entries(module, checked=False)
    run = compile_module(program, target)[TIMED]
    tensors = [tvm.runtime.tensor(values_of(*buffer)) for buffer in buffers[TIMED]]
    return lambda: run(*tensors)


def _convolution(
    dtype: str, size: int, channels: int, weight: tuple[int, ...], stride: int = 1, groups: int = 1
) -> tvm.IRModule:
    """A convolution of a square image with zeros around it, by the shape of its weight."""
    data_type, weight_type, sums = TYPES[dtype]
    image = te.placeholder((1, size, size, channels), data_type, name="data")
    taps = te.placeholder(weight, weight_type, name="weight")
    window = [stride] * 2, [weight[0] // 2] * 4, [1, 1], groups, "NHWC", "HWIO", sums
    return _task(image, taps, topi.nn.conv(image, taps, *window), (1, 1, 1, weight[-1]))


def _task(data: te.Tensor, weight: te.Tensor, output: te.Tensor, bias: tuple[int, ...]) -> tvm.IRModule:
    others, output = fuse(output, "bias_relu", bias)
    func = te.create_prim_func([data, weight, *others, output], index_dtype_override="int64")
    return as_task_module(with_layout_free(func, [1]))
