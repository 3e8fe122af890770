"""Operators for tests: one small example of each type, and their meaning in PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
import tvm
from foretune.dataset.operators import (
    BatchMatmul,
    BatchNorm,
    CapsuleConv2d,
    Conv1d,
    Conv2d,
    Conv3d,
    Dense,
    DepthwiseConv2d,
    FrobeniusNorm,
    GroupConv2d,
    GroupConv3d,
    GroupNorm,
    LayerNorm,
    OperatorSettings,
    Pool2d,
    Reduction,
    Softmax,
    TransposedConv1d,
    TransposedConv2d,
    WinogradConv2d,
)
from foretune.dataset.operators.winograd import transform_weight
from foretune.dataset.task import Task
from foretune.dataset.tvm_compat import argument_buffers
from torch.nn import functional as F

EXAMPLES: Mapping[str, OperatorSettings] = {
    op.operator: op
    for op in (
        Conv1d(batch=2, in_channels=6, length=11, out_channels=4, kernel=3, stride=2, padding=1, dilation=2),
        Conv2d(
            batch=2, in_channels=3, height=9, width=7, out_channels=4, kernel=(3, 2), stride=(2, 1),
            padding=(1, 2), dilation=(2, 1),
        ),
        GroupConv2d(
            batch=1, in_channels=4, height=7, width=8, out_channels=6, kernel=3, padding=(0, 1), groups=2
        ),
        DepthwiseConv2d(
            batch=2, in_channels=5, height=8, width=9, kernel=(3, 5), stride=(1, 2), padding=(1, 2)
        ),
        Conv3d(
            batch=1, in_channels=2, depth=5, height=6, width=7, out_channels=3, kernel=(1, 3, 2),
            stride=(1, 2, 1), padding=(0, 1, 1),
        ),
        GroupConv3d(
            batch=1, in_channels=4, depth=4, height=5, width=6, out_channels=6, kernel=(2, 3, 1),
            stride=(1, 1, 2), padding=(1, 0, 0), groups=2,
        ),
        TransposedConv1d(
            batch=2, in_channels=3, length=5, out_channels=4, kernel=4, stride=3, padding=1, output_padding=1
        ),
        TransposedConv2d(
            batch=2, in_channels=3, height=4, width=5, out_channels=2, kernel=(3, 4), stride=(2, 3),
            padding=(1, 2), output_padding=(1, 2),
        ),
        CapsuleConv2d(
            batch=1, in_channels=2, height=5, width=6, out_channels=3, kernel=(3, 2), stride=(2, 1),
            padding=1, capsule_size=2,
        ),
        WinogradConv2d(batch=2, in_channels=3, height=7, width=10, out_channels=4, padding=(1, 0)),
        Dense(rows=5, in_features=7, out_features=6),
        BatchMatmul(batch=3, rows=4, inner=5, columns=6),
        Softmax(rows=5, columns=7),
        LayerNorm(rows=5, columns=8),
        BatchNorm(batch=2, channels=3, height=4, width=5),
        GroupNorm(batch=2, channels=6, groups=3, height=4, width=5),
        FrobeniusNorm(batch=3, rows=4, columns=5),
        Pool2d(batch=2, channels=3, height=7, width=8, kernel=(3, 2), stride=(2, 1), padding=1),
        Reduction(rows=5, columns=7),
    )
}  # fmt: skip
"""By operator type. Extents along different axes differ, so that axes mixed up show."""


def random_inputs(task: Task, seed: int = 0) -> list[torch.Tensor]:
    """Normal inputs of a task, or small integers, without its output."""
    generator = torch.Generator().manual_seed(seed)
    return [
        torch.randn(shape, generator=generator).to(getattr(torch, dtype))
        if dtype.startswith("float")
        else torch.randint(-50, 50, shape, generator=generator, dtype=getattr(torch, dtype))
        for shape, dtype in argument_buffers(task.mod)[:-1]
    ]


def run(task: Task, inputs: list[torch.Tensor]) -> np.ndarray:
    """Output of the unscheduled task on this CPU."""
    shape, dtype = argument_buffers(task.mod)[-1]
    output = tvm.runtime.tensor(np.zeros(shape, dtype))
    tvm.compile(task.mod, target="llvm")["main"](*(tvm.runtime.tensor(x.numpy()) for x in inputs), output)
    return output.numpy()


def pytorch_output(op: OperatorSettings, inputs: list[torch.Tensor]) -> torch.Tensor:
    """Output of PyTorch in float64."""
    tensors = [x.double() for x in inputs]
    values = {name: getattr(op, name) for name in ("stride", "padding", "dilation") if hasattr(op, name)}
    if isinstance(op, (Conv1d, Conv2d, GroupConv2d, DepthwiseConv2d, Conv3d, GroupConv3d)):
        convolve: Any = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[len(op.axes)]
        output = _convolution(op.layout, convolve, tensors, groups=op.group_count, **values)
    elif isinstance(op, (TransposedConv1d, TransposedConv2d)):
        convolve = {1: F.conv_transpose1d, 2: F.conv_transpose2d}[len(op.axes)]
        output = _convolution(
            op.layout, convolve, tensors, transposed=True, output_padding=op.output_padding, **values
        )
    elif isinstance(op, WinogradConv2d):
        output = _convolution(op.layout, F.conv2d, tensors, **values)
    elif isinstance(op, CapsuleConv2d):
        output = _capsules(op, *tensors)
    elif isinstance(op, BatchMatmul) and op.transpose_right:
        output = tensors[0] @ tensors[1].transpose(1, 2)
    elif isinstance(op, (Dense, BatchMatmul)):
        output = tensors[0] @ tensors[1]
    elif isinstance(op, BatchNorm):
        data, weight, bias = tensors
        output = F.batch_norm(data, None, None, weight, bias, training=True)
    elif isinstance(op, GroupNorm):
        data, weight, bias = tensors
        output = F.group_norm(data, op.groups, weight, bias)
    else:
        return _without_weights(op, tensors)
    return _epilogue(op.epilogue, output, tensors[2:])


def _convolution(
    layout: str,
    convolve: Callable[..., torch.Tensor],
    tensors: list[torch.Tensor],
    transposed: bool = False,
    **values: Any,
) -> torch.Tensor:
    data, weight = tensors[:2]
    if layout.startswith("NC"):
        return convolve(data, weight, **values)
    # HWIO to OIHW, or to IOHW where the convolution is transposed.
    spatial = range(weight.dim() - 2)
    channels = (-2, -1) if transposed else (-1, -2)
    output = convolve(data.movedim(-1, 1), weight.permute(*channels, *spatial), **values)
    return output.movedim(1, -1)


def _capsules(op: CapsuleConv2d, data: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """A plain convolution for each element of the matrices, and a sum over the inner one."""
    size = op.capsule_size
    elements = [
        sum(
            F.conv2d(
                data[..., i, k, :].movedim(-1, 1),
                weight[:, :, k, j].permute(3, 2, 0, 1),
                stride=op.stride,
                padding=op.padding,
            )
            for k in range(size)
        )
        for i in range(size)
        for j in range(size)
    ]
    stacked = torch.stack([torch.as_tensor(x) for x in elements]).unflatten(
        0, (size, size)
    )  # [i, j, n, o, y, x]
    return stacked.permute(2, 4, 5, 0, 1, 3)


def _without_weights(op: OperatorSettings, tensors: list[torch.Tensor]) -> torch.Tensor:
    data = tensors[0]
    if isinstance(op, Softmax):
        return torch.softmax(data, -1)
    if isinstance(op, LayerNorm):
        return F.layer_norm(data, [op.columns], *tensors[1:])
    if isinstance(op, FrobeniusNorm):
        return torch.linalg.matrix_norm(data)
    if isinstance(op, Reduction):
        reduce: Any = {"sum": torch.sum, "mean": torch.mean, "max": torch.amax}[op.mode]
        return reduce(data, dim=op.axis)
    assert isinstance(op, Pool2d)
    pool: Any = {"max": F.max_pool2d, "avg": F.avg_pool2d}[op.mode]
    if op.layout == "NCHW":
        return pool(data, op.kernel, op.stride, op.padding)
    return pool(data.movedim(-1, 1), op.kernel, op.stride, op.padding).movedim(1, -1)


def _epilogue(epilogue: str, output: torch.Tensor, extra: list[torch.Tensor]) -> torch.Tensor:
    more = iter(extra)
    functions: Any = {"relu": F.relu, "relu6": F.relu6, "gelu": F.gelu, "silu": F.silu, "none": lambda x: x}
    for step in epilogue.split("_"):
        if step in ("bias", "add"):
            output = output + next(more)
        else:
            output = functions[step](output)
    return output


def winograd_inputs(
    op: WinogradConv2d, inputs: list[torch.Tensor]
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Inputs of the task, whose weight is transformed, and of the convolution that it stands for."""
    data, _, *extra = inputs
    weight = torch.randn(3, 3, op.in_channels, op.out_channels, generator=torch.Generator().manual_seed(1))
    transformed = torch.from_numpy(transform_weight(weight.numpy()))
    return [data, transformed, *extra], [data, weight, *extra]
