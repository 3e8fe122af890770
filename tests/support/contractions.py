"""Products and convolutions of all data types of templates, as tasks and as NumPy computes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import tvm
from foretune.compiler.codegen.compilation import compile_module, entries
from foretune.compiler.operators.shared.matmul import matmul
from foretune.compiler.tvm_compat import as_task_module, with_layout_free
from foretune.compiler.types import numpy_type
from numpy.typing import NDArray
from tvm import te, topi
from tvm.target import Target

SUMS = {"float16": "float16", "float32": "float32", "bfloat16": "float32", "uint8": "int32", "int8": "int32"}
"""Data type of the sums by that of the data."""

WEIGHTS = {
    "float16": "float16",
    "float32": "float32",
    "bfloat16": "bfloat16",
    "uint8": "int8",
    "int8": "int8",
}


@dataclass(frozen=True)
class Product:
    """A product of matrices, or of `batch` pairs of them."""

    rows: int
    columns: int
    depth: int
    dtype: str = "float32"
    batch: int = 0
    transposed: bool = False
    epilogue: str = "none"
    """`none`, `relu` for bias and ReLU, or `convert` for a conversion behind them."""

    def module(self) -> tvm.IRModule:
        """The task; its weight has no batch where its layout may be chosen."""
        front = (self.batch,) if self.batch else ()
        weight = (self.columns, self.depth) if self.transposed else (self.depth, self.columns)
        data = te.placeholder((*front, self.rows, self.depth), self.dtype, name="data")
        right = te.placeholder((*front, *weight), WEIGHTS[self.dtype], name="weight")
        output = matmul(data, right, SUMS[self.dtype], self.transposed)
        return _task(data, right, output, self.epilogue, self.columns, constant=not self.batch)

    def expected(self, arguments: Sequence[NDArray]) -> NDArray:
        """Output by NumPy, in float64."""
        data, weight, *bias = (_wide(argument) for argument in arguments)
        return _finished(data @ (weight.swapaxes(-1, -2) if self.transposed else weight), bias)


@dataclass(frozen=True)
class Convolution:
    """A convolution of a square image, channels last; a depthwise one has as many filters as channels."""

    size: int
    channels: int
    filters: int
    kernel: int = 1
    stride: int = 1
    padding: int = 0
    dtype: str = "float32"
    epilogue: str = "none"
    depthwise: bool = False
    dilation: int = 1
    images: int = 1

    def module(self) -> tvm.IRModule:
        """The task."""
        data = te.placeholder((self.images, self.size, self.size, self.channels), self.dtype, name="data")
        groups = self.channels if self.depthwise else 1
        shape = (self.kernel, self.kernel, self.channels // groups, self.filters)
        weight = te.placeholder(shape, WEIGHTS[self.dtype], name="weight")
        steps = [self.stride] * 2, [self.padding] * 4, [self.dilation] * 2
        window = *steps, groups, "NHWC", "HWIO", SUMS[self.dtype]
        return _task(data, weight, topi.nn.conv(data, weight, *window), self.epilogue, self.filters)

    def expected(self, arguments: Sequence[NDArray]) -> NDArray:
        """Output by NumPy, in float64."""
        data, weight, *bias = (_wide(argument) for argument in arguments)
        border = (self.padding, self.padding)
        padded = np.pad(data, ((0, 0), border, border, (0, 0)))
        reach = 1 + (self.kernel - 1) * self.dilation
        windows = np.lib.stride_tricks.sliding_window_view(padded, (reach, reach), axis=(1, 2))
        windows = windows[:, :: self.stride, :: self.stride]  # [n, y, x, channel, ky, kx]
        windows = windows[..., :: self.dilation, :: self.dilation]
        if self.depthwise:
            return _finished(np.einsum("nyxckl,klc->nyxc", windows, weight[:, :, 0]), bias)
        return _finished(np.einsum("nyxckl,klcf->nyxf", windows, weight), bias)


def run_checked(
    task: Product | Convolution, program: tvm.IRModule, target: Target
) -> tuple[NDArray, NDArray]:
    """Outputs of a scheduled task and of NumPy, in float64."""
    module, buffers = entries(program, checked=True)
    entry = "checked" if "checked" in buffers else "main"
    rng = np.random.default_rng(0)
    arguments = [_values(rng, shape, dtype) for shape, dtype in buffers[entry]]
    tensors = [tvm.runtime.tensor(argument) for argument in arguments]
    compile_module(module, target)[entry](*tensors)
    return _wide(tensors[-1].numpy()), task.expected(arguments[:-1])


def tolerance(task: Product | Convolution) -> float:
    """Difference that rounding explains, relative to the largest output: none for integers."""
    if "int" in task.dtype:
        return 0.0
    if task.dtype == "float16":
        return 3e-2  # its sums are rounded at each step
    return 2.0**-8 if task.epilogue == "convert" else 1e-5


def _task(
    data: te.Tensor, weight: te.Tensor, output: te.Tensor, epilogue: str, columns: int, constant: bool = True
) -> tvm.IRModule:
    arguments = [data, weight]
    if epilogue != "none":
        bias = te.placeholder((columns,), output.dtype, name="bias")
        arguments.append(bias)
        output = topi.nn.relu(topi.add(output, bias))
        if epilogue == "convert":
            output = topi.cast(output, "bfloat16" if output.dtype == "float32" else "float32")
    func = te.create_prim_func([*arguments, output], index_dtype_override="int64")
    return as_task_module(with_layout_free(func, [1] if constant else []))


def _finished(output: NDArray, bias: Sequence[NDArray]) -> NDArray:
    return np.maximum(output + bias[0], 0) if bias else output


def _values(rng: np.random.Generator, shape: Sequence[int], dtype: str) -> NDArray:
    if "float" in dtype:
        values = rng.uniform(-1, 1, tuple(shape)).astype(np.float32)
        return values.astype(numpy_type(dtype))
    low, high = (0, 256) if dtype == "uint8" else (-128, 128)
    return rng.integers(low, high, tuple(shape)).astype(dtype)


def _wide(array: NDArray) -> NDArray:
    return array.astype(np.float64)
