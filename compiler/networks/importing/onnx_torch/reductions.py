"""Reductions, normalisations and products of matrices."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch.nn import functional

from .call import Convert, FixedExtentsError, OperatorCall


def _reduced(reduce: Callable[..., torch.Tensor]) -> Convert:
    """A reduction over axes, which are an attribute or an operand; over all of them without any."""

    def convert(call: OperatorCall) -> torch.Tensor:
        x, axes = call.tensor(), call.axes(1)
        if not axes:
            if call.get("noop_with_empty_axes", 0):
                return x
            axes = list(range(x.dim()))
        return reduce(x, axes, keepdim=bool(call.get("keepdims", 1)))

    return convert


def _product(x: torch.Tensor, axes: list[int], *, keepdim: bool) -> torch.Tensor:
    for axis in sorted((axis % x.dim() for axis in axes), reverse=True):
        x = torch.prod(x, axis, keepdim=keepdim)
    return x


def _place(find: Callable[..., torch.Tensor]) -> Convert:
    def convert(call: OperatorCall) -> torch.Tensor:
        x, axis = call.tensor(), call.get("axis", 0) % call.tensor().dim()
        keepdim = bool(call.get("keepdims", 1))
        if not call.get("select_last_index", 0):
            return find(x, axis, keepdim=keepdim)
        return x.shape[axis] - 1 - find(torch.flip(x, [axis]), axis, keepdim=keepdim)

    return convert


def _top_k(call: OperatorCall) -> list[torch.Tensor]:
    count, axis = call.number(1), call.get("axis", -1)
    return list(torch.topk(call.tensor(), count, axis, bool(call.get("largest", 1)), True))


def _running_sum(call: OperatorCall) -> torch.Tensor:
    x, axis = call.tensor(), int(call.number(1))
    turned = torch.flip(x, [axis]) if call.get("reverse", 0) else x
    found = torch.cumsum(turned, axis)
    found = found - turned if call.get("exclusive", 0) else found
    return torch.flip(found, [axis]) if call.get("reverse", 0) else found


def _softmax(function: Callable[..., torch.Tensor]) -> Convert:
    """Before version 13, all axes from the given one on were one axis."""

    def convert(call: OperatorCall) -> torch.Tensor:
        x = call.tensor()
        if call.opset >= 13:
            return function(x, call.get("axis", -1))
        axis = call.get("axis", 1) % x.dim()
        return function(x.flatten(axis), axis).reshape(x.shape)

    return convert


def _batch_norm(call: OperatorCall) -> torch.Tensor:
    x, weight, bias, mean, variance = (call.tensor(place) for place in range(5))
    return functional.batch_norm(x, mean, variance, weight, bias, eps=call.get("epsilon", 1e-5))


def _layer_norm(call: OperatorCall) -> torch.Tensor:
    x = call.tensor()
    axis = call.get("axis", -1) % x.dim()
    bias, epsilon = call.optional(2), call.get("epsilon", 1e-5)
    return functional.layer_norm(x, list(x.shape[axis:]), call.tensor(1), bias, epsilon)


def _rms_norm(call: OperatorCall) -> torch.Tensor:
    x = call.tensor()
    axis = call.get("axis", -1) % x.dim()
    return functional.rms_norm(x, list(x.shape[axis:]), call.tensor(1), call.get("epsilon", 1e-5))


def _instance_norm(call: OperatorCall) -> torch.Tensor:
    x, weight, bias = call.given()
    return functional.instance_norm(x, weight=weight, bias=bias, eps=call.get("epsilon", 1e-5))


def _group_norm(call: OperatorCall) -> torch.Tensor:
    x, weight, bias = call.given()
    groups = call.get("num_groups")
    if weight.shape[0] != x.shape[1]:  # before version 21: one of each group
        weight, bias = (one.repeat_interleave(x.shape[1] // groups) for one in (weight, bias))
    return functional.group_norm(x, groups, weight, bias, call.get("epsilon", 1e-5))


def _lp_norm(call: OperatorCall) -> torch.Tensor:
    return functional.normalize(call.tensor(), p=call.get("p", 2), dim=call.get("axis", -1))


def _local_response_norm(call: OperatorCall) -> torch.Tensor:
    size = call.get("size")
    if size % 2 == 0:
        raise FixedExtentsError("its size is even")
    alpha, beta, bias = call.get("alpha", 1e-4), call.get("beta", 0.75), call.get("bias", 1.0)
    return functional.local_response_norm(call.tensor(), size, alpha, beta, bias)


def _gemm(call: OperatorCall) -> torch.Tensor:
    left, right = call.tensor(0), call.tensor(1)
    left = left.t() if call.get("transA", 0) else left
    alpha, beta = call.get("alpha", 1.0), call.get("beta", 1.0)
    bias = call.optional(2)
    if call.get("transB", 0) and alpha == 1 and bias is not None and bias.dim() == 1 and beta == 1:
        return functional.linear(left, right, bias)
    found = left @ (right.t() if call.get("transB", 0) else right)
    found = found if alpha == 1 else alpha * found
    return found if bias is None else found + (bias if beta == 1 else beta * bias)


def _einsum(call: OperatorCall) -> torch.Tensor:
    return torch.einsum(call.get("equation"), *call.given())


def _norm(order: int) -> Callable[..., torch.Tensor]:
    def norm(x: torch.Tensor, axes: list[int], *, keepdim: bool) -> torch.Tensor:
        return torch.linalg.vector_norm(x, order, axes, keepdim=keepdim)

    return norm


def _sum_of_squares(x: torch.Tensor, axes: list[int], *, keepdim: bool) -> torch.Tensor:
    return torch.sum(x * x, axes, keepdim=keepdim)


def _log_of_sum(x: torch.Tensor, axes: list[int], *, keepdim: bool) -> torch.Tensor:
    return torch.log(torch.sum(x, axes, keepdim=keepdim))


REDUCTIONS: Mapping[str, Convert] = {
    "ArgMax": _place(torch.argmax),
    "ArgMin": _place(torch.argmin),
    "BatchNormalization": _batch_norm,
    "CumSum": _running_sum,
    "Einsum": _einsum,
    "Gemm": _gemm,
    "GroupNormalization": _group_norm,
    "InstanceNormalization": _instance_norm,
    "LRN": _local_response_norm,
    "LayerNormalization": _layer_norm,
    "LogSoftmax": _softmax(torch.log_softmax),
    "LpNormalization": _lp_norm,
    "MatMul": lambda call: torch.matmul(call.tensor(0), call.tensor(1)),
    "RMSNormalization": _rms_norm,
    "ReduceL1": _reduced(_norm(1)),
    "ReduceL2": _reduced(_norm(2)),
    "ReduceLogSum": _reduced(_log_of_sum),
    "ReduceLogSumExp": _reduced(torch.logsumexp),
    "ReduceMax": _reduced(torch.amax),
    "ReduceMean": _reduced(torch.mean),
    "ReduceMin": _reduced(torch.amin),
    "ReduceProd": _reduced(_product),
    "ReduceSum": _reduced(torch.sum),
    "ReduceSumSquare": _reduced(_sum_of_squares),
    "Softmax": _softmax(torch.softmax),
    "TopK": _top_k,
}
"""Conversions by operator."""
