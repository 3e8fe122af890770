"""What PyTorch's library calls compute on the arrays of a problem; needs no Triton."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .attention import Attention, BackToBack
from .problem import Problem, Window
from .rows import NormedProduct, Rows

if TYPE_CHECKING:
    import torch


def by_library(problem: Problem, arrays: Sequence[torch.Tensor]) -> torch.Tensor:
    """Output of PyTorch's library calls on the arrays of `random_arrays`, in their data type and layout."""
    import torch
    from torch.nn import functional

    act = getattr(functional, problem.activation, None)
    inputs = list(arrays[:-1])
    if isinstance(problem, Attention):
        return _attention(problem, arrays)
    if isinstance(problem, BackToBack):
        output = inputs.pop(0)
        while inputs:
            matrix, own = inputs.pop(0), inputs.pop(0)
            output = torch.addmm(own, output, matrix)  # one call, whose kernel adds the bias
            output = output if act is None else act(output)
        return output
    there = dict(zip(problem.pointers, arrays, strict=True))
    residual = there.get("residual")
    bias = there["bias"].to(inputs[0].dtype) if "bias" in there else None
    if isinstance(problem, Rows):
        output = there["data"] if bias is None else there["data"] + bias
    elif isinstance(problem, Window):
        # Views with channels last, which is how the arrays lie in memory.
        output = functional.conv2d(
            there["data"].permute(0, 3, 1, 2),
            there["weight"].permute(3, 2, 0, 1),
            bias,
            problem.stride,
            problem.padding,
        ).permute(0, 2, 3, 1)
    elif bias is None:
        output = there["left"] @ there["right"]
    else:
        output = torch.addmm(bias, there["left"], there["right"])
    output = output if residual is None else output + residual.to(output.dtype)
    output = output if act is None else act(output)
    if isinstance(problem, NormedProduct) or (isinstance(problem, Rows) and problem.norm == "layer"):
        scale, shift = (there[name].to(output.dtype) for name in ("scale", "shift"))
        output = functional.layer_norm(output, output.shape[-1:], scale, shift, problem.epsilon)
    elif isinstance(problem, Rows):
        output = functional.softmax(output, -1)
    return output


def _attention(problem: Attention, arrays: Sequence[torch.Tensor]) -> torch.Tensor:
    """Output in the layout of the last array; see `strided`."""
    from torch.nn import functional

    query, key, value, mask = strided(problem, arrays)[:4]
    mask = None if mask is None else mask.to(query.dtype)
    found = functional.scaled_dot_product_attention(query, key, value, mask, scale=problem.scale)
    output = arrays[-1].clone()
    strided(problem, (*arrays[:-1], output))[-1].copy_(found)
    return output


def strided(problem: Attention, arrays: Sequence[torch.Tensor]) -> list[Any]:
    """Views [batch, heads, rows, columns] of query, key, value, mask and output; None for no mask."""
    there = dict(zip(problem.pointers, arrays, strict=True))
    rows = (problem.queries, problem.keys, problem.keys, problem.queries, problem.queries)
    columns = (problem.width, problem.width, problem.width, problem.keys, problem.width)
    return [
        there[name].as_strided(
            (problem.batch, problem.heads, n, width), (of.batch, of.head, of.row, 1), of.start
        )
        if name in there
        else None
        for name, of, n, width in zip(problem.arguments, problem.layouts, rows, columns, strict=True)
    ]
