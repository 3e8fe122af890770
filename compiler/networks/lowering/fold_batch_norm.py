"""Folding of inference batch norms into the weights before them, which leaves tasks with a bias.

TVM's own pass skips convolutions with a bias, transposed convolutions, and batch norms without a convolution
before them; those then decompose into a subtraction, division, multiplication and addition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tvm
from numpy.typing import NDArray
from tvm import relax
from tvm.relax.dpl import DFPattern, is_const, is_op, is_tuple_get_item, rewrite_call, wildcard

CONVOLUTIONS = tuple(
    f"relax.nn.{name}" for name in ("conv1d", "conv2d", "conv3d", "conv1d_transpose", "conv2d_transpose")
)


def fold_batch_norm(mod: tvm.IRModule) -> tvm.IRModule:
    """Rewrites every `batch_norm` of constants in the Relax functions of `mod`, keeping their outputs.

    After a convolution with constant weights, biased or not, it becomes new weights and one added constant;
    elsewhere, one multiplication and one addition of constants per channel.
    """
    folded = tvm.IRModule(mod.functions, attrs=mod.attrs)
    for var, func in mod.functions_items():
        if isinstance(func, relax.Function):
            for biased in (True, False):
                for convolution in CONVOLUTIONS:
                    func = _fold_into(convolution, biased, func)
            folded[var] = _to_scale_and_shift(func)
    return folded


def _batch_norm_pattern(data: DFPattern) -> tuple[DFPattern, DFPattern, list[DFPattern]]:
    """The normalised output of a batch norm of `data`, the batch norm itself, and its four parameters."""
    parameters = [is_const() for _ in range(4)]
    call = is_op("relax.nn.batch_norm")(data, *parameters)
    return is_tuple_get_item(call, 0), call, parameters


def _scale_and_shift(
    call: relax.Call, parameters: list[tvm.ir.GenericConst]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """float64 [channels] each: the batch norm is `scale * data + shift`."""
    gamma, beta, mean, variance = (constant.value.numpy().astype(np.float64) for constant in parameters)
    scale = 1.0 / np.sqrt(variance + call.attrs.epsilon)
    if call.attrs.scale:
        scale = scale * gamma
    return scale, (beta if call.attrs.center else 0.0) - mean * scale


def _fold_into(convolution: str, biased: bool, func: relax.Function) -> relax.Function:
    weight, bias = is_const(), is_const()
    conv = is_op(convolution)(wildcard(), weight)
    shaped = is_op("relax.reshape")(bias, wildcard())
    added = is_op("relax.add")(conv, shaped) if biased else conv
    output, norm, parameters = _batch_norm_pattern(added)

    def rewrite(expr: relax.Expr, matches: Mapping[DFPattern, relax.Expr]) -> relax.Expr:
        conv_call, norm_call = matches[conv], matches[norm]
        attrs = conv_call.attrs
        axis = attrs.out_layout.index("C")
        kernel_axis = attrs.kernel_layout.index("O")
        # With groups, a transposed convolution's kernel has only out_channels / groups along O.
        per_group = attrs.kernel_layout.startswith("I") and attrs.groups > 1
        if norm_call.attrs.training or norm_call.attrs.axis != axis or per_group:
            return expr
        kernel = matches[weight].value.numpy()
        if biased and not _is_along(matches[shaped].ty.shape, axis, kernel.ndim):
            return expr
        scale, shift = _scale_and_shift(norm_call, [matches[p] for p in parameters])
        if biased:
            shift = shift + scale * matches[bias].value.numpy().reshape(-1)
        rescaled = kernel * _along(scale, kernel_axis, kernel.ndim)
        new_conv = relax.Call(
            conv_call.op, (conv_call.args[0], _constant(rescaled, kernel.dtype)), attrs, conv_call.ty_args
        )
        return relax.op.add(new_conv, _constant(_along(shift, axis, kernel.ndim), kernel.dtype))

    return _rewrite(output, rewrite, func)


def _to_scale_and_shift(func: relax.Function) -> relax.Function:
    data = wildcard()
    output, norm, parameters = _batch_norm_pattern(data)

    def rewrite(expr: relax.Expr, matches: Mapping[DFPattern, relax.Expr]) -> relax.Expr:
        call = matches[norm]
        if call.attrs.training:
            return expr
        axis, ndim, dtype = call.attrs.axis, len(call.args[0].ty.shape), call.args[0].ty.dtype
        scale, shift = (
            _along(v, axis, ndim) for v in _scale_and_shift(call, [matches[p] for p in parameters])
        )
        scaled = relax.op.multiply(call.args[0], _constant(scale, dtype))
        return relax.op.add(scaled, _constant(shift, dtype))

    return _rewrite(output, rewrite, func)


def _along(values: NDArray[np.float64], axis: int, ndim: int) -> NDArray[np.float64]:
    """Reshapes [channels] so that it broadcasts along `axis` of an `ndim`-dimensional tensor."""
    return values.reshape([-1 if i == axis else 1 for i in range(ndim)])


def _is_along(shape: Sequence[Any], axis: int, ndim: int) -> bool:
    """Whether a constant of this shape broadcasts along `axis` alone of an `ndim`-dimensional tensor."""
    missing = ndim - len(shape)
    extents = enumerate(map(int, shape), missing)
    return missing >= 0 and all(extent == 1 or place == axis for place, extent in extents)


def _constant(values: NDArray[Any], dtype: Any) -> tvm.ir.GenericConst:
    return relax.const(np.ascontiguousarray(values, dtype=str(dtype)), str(dtype))


def _rewrite(
    pattern: DFPattern,
    rewrite: Callable[[relax.Expr, Mapping[DFPattern, relax.Expr]], relax.Expr],
    func: relax.Function,
) -> relax.Function:
    return rewrite_call(pattern, rewrite, func)
